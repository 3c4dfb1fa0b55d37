#include "api/resident/row_writer.h"

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
      all_(wanted_.fields == every(table.columns().size())),
      values_(table.columns().size()) {}

void RowWriter::begin(Buffer& out) const {
  switch (wanted_.format) {
    case sql::Format::json:
      if (!wanted_.object) out.push_back('[');
      return;
    case sql::Format::ndjson:
      return;
    case sql::Format::csv:
    case sql::Format::csj: {
      std::vector<sql::Column> columns;
      for (const std::uint32_t field : wanted_.fields) columns.push_back(table_.columns()[field]);
      sql::Encoder(wanted_.format, columns).begin(out, wanted_.header);
      return;
    }
  }
}

void RowWriter::row(std::uint32_t row, Buffer& out) {
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
    const std::size_t begin = at;
    bool quoted = false;
    for (; at < line.size(); ++at) {
      if (line[at] == '"') quoted = !quoted;  // a quote within is two
      if (!quoted && (line[at] == ',' || line[at] == '\n')) break;
    }
    value = line.substr(begin, at - begin);
    ++at;
  }
}

}  // namespace sluice::api::resident
