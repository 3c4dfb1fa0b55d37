#include "api/resident/row_writer.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace sluice::api::resident {
namespace {

std::vector<std::uint32_t> every(std::size_t columns) {
  std::vector<std::uint32_t> all(columns);
  std::iota(all.begin(), all.end(), 0U);
  return all;
}

}  // namespace

RowWriter::RowWriter(const Table& table, Wanted wanted)
    : table_(table),
      wanted_([&] {
        if (wanted.fields.empty()) wanted.fields = every(table.columns().size());
        return std::move(wanted);
      }()),
      all_(wanted_.fields == every(table.columns().size())) {
  if (table.packed() == nullptr) {
    values_.resize(table.columns().size());
    return;
  }
  reader_.emplace(*table.packed());
  if (all_) {
    read_ = table.columns().size();
    encoder_.emplace(table.layout(wanted_.format));
    return;
  }
  read_ = std::ranges::max(wanted_.fields) + 1;
  columns_ = wanted_columns();
  fields_.resize(columns_.size());
  encoder_.emplace(wanted_.format == sql::Format::json ? sql::Format::ndjson : wanted_.format, columns_);
}

std::vector<sql::Column> RowWriter::wanted_columns() const {
  std::vector<sql::Column> columns;
  for (const std::uint32_t field : wanted_.fields) columns.push_back(table_.columns()[field]);
  return columns;
}

void RowWriter::begin(Buffer& out) const {
  switch (wanted_.format) {
    case sql::Format::json:
      if (!wanted_.object) out.push_back('[');
      return;
    case sql::Format::ndjson:
      return;
    case sql::Format::csv:
    case sql::Format::csj: {
      sql::Encoder(wanted_.format, wanted_columns()).begin(out, wanted_.header);
      return;
    }
  }
}

void RowWriter::row(std::uint32_t row, Buffer& out) {
  if (encoder_) {
    if (wanted_.format == sql::Format::json && !std::exchange(first_, false)) out.push_back(',');
    return unpack(row, out);
  }
  switch (wanted_.format) {
    case sql::Format::json:
      if (!std::exchange(first_, false)) out.push_back(',');
      [[fallthrough]];
    case sql::Format::ndjson:
      if (all_) return out.append(table_.object(row));
      table_.cut(row, values_);
      return members(out);
    case sql::Format::csj: {
      table_.cut(row, values_);
      for (std::size_t i = 0; i < wanted_.fields.size(); ++i) {
        if (i != 0) out.push_back(',');
        out.append(values_[wanted_.fields[i]]);
      }
      out.push_back('\n');
      return;
    }
    case sql::Format::csv:
      return csv(row, out);
  }
}

void RowWriter::unpack(std::uint32_t row, Buffer& out) {
  std::span<const sql::Field> fields = reader_->row(row, read_);
  if (!all_) {
    for (std::size_t i = 0; i < fields_.size(); ++i) fields_[i] = fields[wanted_.fields[i]];
    fields = fields_;
  }
  encoder_->rows(
      {.columns = all_ ? std::span(table_.columns()) : std::span(columns_), .fields = fields, .rows = 1, .last = false},
      out);
}

void RowWriter::members(Buffer& out) const {
  out.push_back('{');
  for (std::size_t i = 0; i < wanted_.fields.size(); ++i) {
    if (i != 0) out.push_back(',');
    out.append(table_.text().name(wanted_.fields[i]));
    out.append(values_[wanted_.fields[i]]);
  }
  out.append("}\n");
}

void RowWriter::csv(std::uint32_t row, Buffer& out) {
  const std::string_view line = table_.csv(row, row + 1);
  if (all_) return out.append(line);
  cut_csv(line, values_);
  // A line that consists only of `\.` would end a COPY.
  if (wanted_.fields.size() == 1 && values_[wanted_.fields.front()] == "\\.") return out.append("\"\\.\"\n");
  for (std::size_t i = 0; i < wanted_.fields.size(); ++i) {
    if (i != 0) out.push_back(',');
    out.append(values_[wanted_.fields[i]]);
  }
  out.push_back('\n');
}

void RowWriter::end(Buffer& out) const {
  if (wanted_.format == sql::Format::json && !wanted_.object) out.append("]\n");
}

void cut_csv(std::string_view line, std::span<std::string_view> values) {
  std::size_t at = 0;
  for (std::string_view& value : values) {
    const std::size_t begin = std::min(at, line.size());  // a line that is too short leaves values empty
    bool quoted = false;
    for (; at < line.size(); ++at) {
      if (line[at] == '"') quoted = !quoted;  // a quote within the value is doubled
      if (!quoted && (line[at] == ',' || line[at] == '\n')) break;
    }
    value = line.substr(begin, at - begin);
    ++at;
  }
}

}  // namespace sluice::api::resident
