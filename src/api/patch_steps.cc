#include "api/patch_steps.h"

#include <algorithm>

#include "api/body/merge_patch.h"
#include "base/assert.h"
#include "sql/parameters.h"
#include "sql/set/set.h"

namespace sluice::api {
namespace {

// Without an owner: the plan keeps the statement.
std::shared_ptr<const WriteStep> pinned(const WriteStep& step) { return {std::shared_ptr<void>(), &step}; }

}  // namespace

PatchPlan::PatchPlan(PatchSql sql, sql::Dialect dialect, const WriteStep& all, sql::Statement read,
                     std::optional<sql::Statement> current)
    : sql_(std::move(sql)), dialect_(dialect), all_(all), read_(step_of(std::move(read))) {
  if (current) current_ = step_of(std::move(*current));
  for (const PatchSql::Assignment& assignment : sql_.assignments) {
    places_.push_back(parameter(sql::shared_parameter(assignment.column)));
  }
  for (const std::string& column : sql_.json) json_.push_back(parameter(sql::shared_parameter(column)));
}

WriteStep PatchPlan::step_of(sql::Statement statement) const {
  WriteStep step{.statement = std::move(statement), .sources = {}};
  for (const sql::Parameter& one : step.statement.parameters) step.sources.push_back(all_.sources[parameter(one.name)]);
  return step;
}

const Value* PatchPlan::object_in(std::span<const Value> row, const Source& source) {
  if (source.from != From::body || source.body_index >= row.size()) return nullptr;
  const Value& value = row[source.body_index];
  return value.kind == Value::Kind::json && value.text.starts_with('{') ? &value : nullptr;
}

bool PatchPlan::merges(std::span<const Value> row) const {
  return std::ranges::any_of(json_, [&](std::size_t place) { return object_in(row, all_.sources[place]) != nullptr; });
}

void PatchPlan::merge(std::span<const sql::Field> current, std::span<Value> row,
                      std::forward_list<std::string>& texts) const {
  for (std::size_t i = 0; i < json_.size(); ++i) {
    const Source& source = all_.sources[json_[i]];
    const Value* const patch = object_in(row, source);
    if (patch == nullptr) continue;
    const std::string_view target = current[i].is_null() ? std::string_view{} : current[i].view();
    row[source.body_index].text = texts.emplace_front(merge_patch(target, patch->text));
  }
}

std::size_t PatchPlan::parameter(std::string_view name) const {
  const auto found = std::ranges::find(all_.statement.parameters, name, &sql::Parameter::name);
  SLUICE_ASSERT(found != all_.statement.parameters.end());
  return static_cast<std::size_t>(found - all_.statement.parameters.begin());
}

void PatchPlan::choose(std::span<const Value> row, std::span<const Upload> uploads, std::string& chosen) const {
  chosen.clear();
  for (std::size_t i = 0; i < places_.size(); ++i) {
    const Source& source = all_.sources[places_[i]];
    const bool is_named = source.from == From::upload
                              ? source.upload_index < uploads.size() && uploads[source.upload_index].hash
                              : source.body_index < row.size() && row[source.body_index].kind != Value::Kind::missing;
    chosen += !sql_.assignments[i].optional || is_named ? '1' : '0';
  }
}

WriteStep PatchPlan::update(const std::string& chosen) const {
  const sql::Statement& all = all_.statement;
  auto parsed =
      sql::parse_parameters(sql_.update(chosen), dialect_ == sql::Dialect::postgres ? sql::PlaceholderStyle::dollar
                                                                                    : sql::PlaceholderStyle::question);
  SLUICE_ASSERT(parsed.has_value());
  WriteStep step{.statement = all, .sources = {}};
  sql::Statement& statement = step.statement;
  statement.text = std::move(parsed->text);
  statement.parameters.clear();
  statement.parameter_types.clear();
  statement.described_types.clear();
  statement.described.clear();
  for (const std::string& name : parsed->names) {
    const std::size_t place = parameter(name);
    step.sources.push_back(all_.sources[place]);
    statement.parameters.push_back(all.parameters[place]);
    if (place < all.parameter_types.size()) statement.parameter_types.push_back(all.parameter_types[place]);
    if (place < all.described_types.size()) statement.described_types.push_back(all.described_types[place]);
    if (place < all.described.size()) statement.described.push_back(all.described[place]);
  }
  sql::StatementIds::give_another(statement);
  return step;
}

std::shared_ptr<const WriteStep> PatchSteps::of(const PatchPlan& plan, std::span<const Value> row,
                                                std::span<const Upload> uploads) {
  plan.choose(row, uploads, chosen_);
  if (!chosen_.contains('0')) return pinned(plan.all());
  if (!chosen_.contains('1')) return pinned(plan.read());
  const auto found = std::ranges::find(recent_, chosen_, [](const auto& one) -> const auto& { return one.first; });
  if (found != recent_.end()) {
    recent_.splice(recent_.begin(), recent_, found);
  } else {
    recent_.emplace_front(chosen_, std::make_shared<const WriteStep>(plan.update(chosen_)));
    if (recent_.size() > most) recent_.pop_back();
  }
  return recent_.front().second;
}

}  // namespace sluice::api
