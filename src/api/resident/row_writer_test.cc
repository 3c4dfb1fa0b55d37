#include "api/resident/row_writer.h"

#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "api/resident/rows_for_tests.h"

namespace sluice::api::resident {
namespace {

struct Cell {
  sql::Column column;
  std::vector<TestValue> values;
};

// By column, so that the same values are available with fewer columns.
const std::vector<Cell>& cells() {
  static const std::vector<Cell> all = {
      {column_of("id", sql::Form::number, 23), {"1", "2", "3", nullptr}},
      {column_of("na \"m\", e", sql::Form::text, 25), {"a,b\n\"c\"\r", "\\.", "", nullptr}},
      {array_of("roles", sql::Form::text), {"{a,\"b,c\"}", "{}", "{NULL}", nullptr}},
      {column_of("at", sql::Form::timestamp_tz, 1184), {"2026-11-22 18:30:00+00", "infinity", nullptr, nullptr}},
      {column_of("j", sql::Form::json, 3802), {"{\"a\": [1, \"}\\n,\"]}", "null", " [1,\n2] ", nullptr}},
      {column_of("n", sql::Form::number, 1700), {"NaN", "1.50", "-Infinity", nullptr}}};
  return all;
}

TestRows rows_of(const std::vector<std::uint32_t>& fields, const std::vector<std::uint32_t>& rows) {
  std::vector<sql::Column> columns;
  for (const std::uint32_t field : fields) columns.push_back(cells()[field].column);
  TestRows made(columns);
  for (const std::uint32_t row : rows) {
    std::vector<TestValue> values;
    for (const std::uint32_t field : fields) values.push_back(cells()[field].values[row]);
    made.row(values);
  }
  return made;
}

const std::vector<std::uint32_t> every_field = {0, 1, 2, 3, 4, 5};

std::string written(const Table& table, const RowWriter::Wanted& wanted, const std::vector<std::uint32_t>& rows) {
  RowWriter writer(table, wanted);
  Buffer out;
  writer.begin(out);
  for (const std::uint32_t row : rows) writer.row(row, out);
  writer.end(out);
  return std::string(out.view());
}

TEST(ResidentRowWriter, WritesWhatTheEncoderWrites) {
  const auto table = table_of({.csv = true}, rows_of(every_field, {0, 1, 2, 3}));
  for (const std::vector<std::uint32_t>& fields :
       {std::vector<std::uint32_t>{}, every_field, {0}, {1}, {4}, {5, 0}, {1, 2}, {4, 3, 2, 1}, {5, 4, 3, 2, 1, 0}}) {
    for (const std::vector<std::uint32_t>& rows :
         {std::vector<std::uint32_t>{}, {0, 1, 2, 3}, {0}, {1}, {2}, {3}, {3, 1}}) {
      const TestRows expected = rows_of(fields.empty() ? every_field : fields, rows);
      for (const auto format : {sql::Format::ndjson, sql::Format::csj, sql::Format::csv}) {
        for (const auto header : {sql::Header::present, sql::Header::absent}) {
          EXPECT_EQ(written(*table, {.format = format, .header = header, .fields = fields}, rows),
                    encoded(format, expected, header))
              << testing::PrintToString(fields) << testing::PrintToString(rows) << static_cast<int>(format);
        }
      }
      // JSON differs only in its line ends.
      std::string lines = encoded(sql::Format::ndjson, expected);
      std::string json = "[";
      for (std::size_t at = 0; at < lines.size(); at = lines.find('\n', at) + 1) {
        json += (at == 0 ? "" : ",") + lines.substr(at, lines.find('\n', at) + 1 - at);
      }
      EXPECT_EQ(written(*table, {.format = sql::Format::json, .fields = fields}, rows), json + "]\n");
    }
  }
}

TEST(ResidentRowWriter, OneRowIsAnObject) {
  const auto table = table_of({.csv = true}, rows_of(every_field, {0, 1, 2, 3}));
  EXPECT_EQ(written(*table, {.object = true}, {1}), table->object(1));
  EXPECT_EQ(written(*table, {.object = true, .fields = {5, 0}}, {1}), "{\"n\":1.50,\"id\":2}\n");
  EXPECT_EQ(written(*table, {.format = sql::Format::csj, .object = true, .fields = {0}}, {1}), "\"id\"\n2\n");
  EXPECT_EQ(written(*table, {.format = sql::Format::csv, .object = true, .fields = {0}}, {1}), "id\n2\n");
}

using Texts = std::vector<std::string_view>;

Texts cut(std::string_view line, std::size_t count) {
  Texts values(count);
  cut_csv(line, values);
  return values;
}

TEST(ResidentRowWriter, CutsLinesOfCsv) {
  EXPECT_EQ(cut("1,a,b\n", 3), (Texts{"1", "a", "b"}));
  EXPECT_EQ(cut("\n", 1), (Texts{""}));
  EXPECT_EQ(cut("1\n", 3), (Texts{"1", "", ""}));
  EXPECT_EQ(cut(",,\n", 3), (Texts{"", "", ""}));
  EXPECT_EQ(cut("\"a,b\",\"c\nd\",\"e\"\"f\"\n", 3), (Texts{"\"a,b\"", "\"c\nd\"", "\"e\"\"f\""}));
  EXPECT_EQ(cut("\"\",\"\"\"\",\",\"\"\n\"\n", 3), (Texts{"\"\"", "\"\"\"\"", "\",\"\"\n\""}));
}

}  // namespace
}  // namespace sluice::api::resident
