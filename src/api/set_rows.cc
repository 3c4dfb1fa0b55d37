#include "api/set_rows.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace sluice::api {
namespace {

constexpr std::size_t batch_rows = 1024;        // rows passed to the database at a time
constexpr std::size_t batch_bytes = 128 << 10;  // bytes of their values

}  // namespace

SetRows::SetRows(const SetWritePlan& plan, BodyFormat format, const http::Exchange& exchange)
    : plan_(plan), exchange_(exchange), reader_(RowReader::make(format, plan.shape, plan.row_limits)) {
  if (plan.schema) check_.emplace(*plan.schema, plan.shape, format);
}

bool SetRows::take(std::uint64_t most_rows) {
  for (;;) {
    switch (reader_->next()) {
      case RowReader::Next::row:
        take_row();
        if (lines_.size() >= std::min<std::uint64_t>(batch_rows, most_rows) || texts_.size() >= batch_bytes)
          return true;
        break;
      case RowReader::Next::bad_row:
        add_fault(reader_->fault());
        break;
      case RowReader::Next::broken:
        faults_ = {reader_->fault()};
        broken_ = true;
        [[fallthrough]];
      case RowReader::Next::end:
        ended_ = true;
        return false;
      case RowReader::Next::need_more:
        return false;
    }
    if (faults_.size() == most_faults) ended_ = true;
    if (ended_) return false;
  }
}

std::span<const sql::StagedValue> SetRows::values() {
  for (std::size_t i = 0; i < values_.size(); ++i) {
    if (values_[i].text) values_[i].text = std::string_view(texts_).substr(begins_[i], values_[i].text->size());
  }
  return values_;
}

core::Task<sql::Result<void>> SetRows::hand_over(sql::Staging& staging) {
  if (!faults_.empty() || lines_.empty()) co_return sql::Result<void>{};
  auto added = co_await staging.add(values(), lines_);
  clear();
  co_return added;
}

std::vector<RowFault> SetRows::located(std::span<const sql::StagedFault> faults) const {
  std::vector<RowFault> found;
  const auto columns_of = [&](const sql::StagedFault& fault) {
    return fault.rule ? sql::broken_columns(*fault.rule, plan_.constraints.get()) : std::span<const std::string>{};
  };
  for (const sql::StagedFault& fault : faults) {
    const auto column = std::ranges::find(plan_.set.staged, fault.column);
    const std::size_t name = column == plan_.set.staged.end()
                                 ? field_of(columns_of(fault), plan_.staged)
                                 : plan_.staged[static_cast<std::size_t>(column - plan_.set.staged.begin())].body_index;
    found.push_back(reader_->fault_in(fault.line, fault.row, name, fault.reason));
    if (fault.rule) found.back().constraint = fault.rule->constraint;
  }
  return found;
}

void SetRows::take_row() {
  empty_ = false;
  if (check_ && !check_->holds(*reader_, most_faults, faults_)) return;
  arguments_.clear();
  const auto row = reader_->row();
  if (auto bound = binder_.bind(plan_.staged, exchange_, row, arguments_); !bound) {
    add_fault(reader_->fault_of(bound.error().source->body_index, std::move(bound.error().reason)));
    return;
  }
  if (const auto differs = differing_echo(plan_.echoes, exchange_.request, row)) {
    add_fault(reader_->fault_of(*differs, std::string(differing_echo_reason)));
    return;
  }
  for (std::size_t i = 0; i < arguments_.size(); ++i) {
    const bool missing = row[plan_.staged[i].body_index].kind == Value::Kind::missing;
    const bool left_out = plan_.set.optional[i] && missing;
    if (!arguments_[i].text && plan_.set.not_null[i] && !left_out) {
      add_fault(reader_->fault_of(plan_.staged[i].body_index, missing ? "is missing" : "must not be null"));
      return;
    }
  }
  if (!faults_.empty()) return;  // nothing will be written; further rows are only checked
  lines_.push_back(reader_->row_line());
  for (std::size_t i = 0; i < arguments_.size(); ++i) {
    const sql::Argument& argument = arguments_[i];
    const bool left_out = plan_.set.optional[i] && row[plan_.staged[i].body_index].kind == Value::Kind::missing;
    begins_.push_back(texts_.size());
    if (argument.text) texts_ += *argument.text;
    values_.push_back({.text = argument.text, .left_out = left_out, .type = argument.type});
  }
}

void SetRows::clear() {
  texts_.clear();
  values_.clear();
  begins_.clear();
  lines_.clear();
}

}  // namespace sluice::api
