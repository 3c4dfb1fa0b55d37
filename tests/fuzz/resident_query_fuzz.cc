// Any bytes as the query string of a resident table: a refusal with a reason, or rows that keep to the limits and the
// order of the query. Every format has as many rows, and a table that is encoded on demand gives the same bytes.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "api/resident/query.h"
#include "api/resident/row_writer.h"
#include "api/resident/rows_for_tests.h"
#include "api/resident/selection.h"
#include "fuzzing.h"

namespace {

using namespace sluice;
using namespace sluice::api::resident;
using sluice::fuzz::require;

std::shared_ptr<const Table> make_table(bool on_demand) {
  TestRows rows({column_of("id", sql::Form::number, 23), column_of("t", sql::Form::text, 25),
                 column_of("n", sql::Form::number, 1700), array_of("a", sql::Form::text),
                 column_of("b", sql::Form::boolean, 16), column_of("d", sql::Form::text, 1082),
                 column_of("at", sql::Form::timestamp_tz, 1184), column_of("j", sql::Form::json, 3802),
                 sqlite_column("s", ""), column_of("c", sql::Form::text, 1042), column_of("x", sql::Form::text, 25)});
  rows.row({"1", "a", "1.5", "{a,b}", "t", "2026-11-22", "2026-11-22 18:30:00+00", "[\"a\", 1]", "a", "a  ", "x"})
      .row({"2", "a,b\n\"", "-3", "{}", "f", "1970-01-01", "infinity", "\"b\"", {"1", sql::Form::number}, "b  ", "y"})
      .row({"4", "", "NaN", "{a,a,NULL}", nullptr, nullptr, nullptr, "null", {"1", sql::Form::bytes}, "", "z"})
      .row({"3", nullptr, nullptr, nullptr, "t", "0044-03-15 BC", "-infinity", nullptr, nullptr, nullptr, nullptr})
      .row({"-9", "b", "1.50", "{\"x y\"}", "f", "2026-11-22", "2026-11-22 19:30:00+01", "{}", "1", "a", ""});
  return table_of(
      {.key = "id", .index = {"t", "n", "a", "b", "d", "at", "j", "s", "c"}, .csv = true, .on_demand = on_demand},
      rows);
}

void write(const Table& table, const RowWriter::Wanted& wanted, const std::vector<std::uint32_t>& rows, Buffer& out) {
  RowWriter writer(table, wanted);
  writer.begin(out);
  for (const std::uint32_t row : rows) writer.row(row, out);
  writer.end(out);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::shared_ptr<const Table> table = make_table(false);
  static const std::shared_ptr<const Table> packed = make_table(true);
  const auto query = parse_query(*table, {reinterpret_cast<const char*>(data), size});
  if (!query) {
    require(query.error().parameter.size() <= 64 && !query.error().detail.empty());
    return 0;
  }
  require(query->conditions.size() <= query_bounds.conditions);
  require(query->order.size() <= table->columns().size() && query->fields.size() <= table->columns().size());
  (void)effort_of(*table, *query);
  const Selection selection = select(*table, *query);
  if (selection.is_range) require(selection.first <= selection.last && selection.last <= table->size());
  std::vector<std::uint32_t> rows = rows_of(selection);
  require(selection.total <= table->size() && rows.size() == selection.size());
  const std::uint64_t behind = selection.total - std::min(query->offset, selection.total);
  require(rows.size() == std::min(query->limit, behind));
  if (query->order.empty()) {
    require(std::ranges::is_sorted(rows));
  } else {
    const Order& first = query->order.front();
    for (std::size_t i = 1; i < rows.size(); ++i) {
      const std::uint32_t before = first.index->rank_of_row(rows[i - 1]);
      const std::uint32_t after = first.index->rank_of_row(rows[i]);
      require(first.descending ? before >= after : before <= after);
    }
  }
  for (const auto format : {sql::Format::json, sql::Format::ndjson, sql::Format::csj, sql::Format::csv}) {
    const RowWriter::Wanted wanted{.format = format, .header = sql::Header::absent, .fields = query->fields};
    Buffer out;
    Buffer same;
    write(*table, wanted, rows, out);
    write(*packed, wanted, rows, same);
    require(out.view() == same.view());
    const auto lines = static_cast<std::size_t>(std::ranges::count(out.view(), '\n'));
    if (format == sql::Format::csv) {
      require(lines >= rows.size());  // a text may contain a line end
    } else {
      require(lines == rows.size() + (format == sql::Format::json ? 1 : 0));
    }
  }
  std::ranges::sort(rows);
  require(std::ranges::adjacent_find(rows) == rows.end() && (rows.empty() || rows.back() < table->size()));
  return 0;
}
