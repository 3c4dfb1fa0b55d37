// The readers must read the encoders' output in each format as the original values.

#include "api/body/row_reader.h"

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "api/body/test_support.h"
#include "sql/encode/encoder.h"

namespace sluice::api {
namespace {

using Kind = Value::Kind;
using Text = std::optional<std::string>;

struct Table {
  std::vector<sql::Column> columns;
  std::vector<Text> values;  // row by row
};

std::string encode(const Table& table, sql::Format format) {
  std::vector<sql::Field> fields;
  for (const Text& value : table.values) {
    sql::Field& field = fields.emplace_back();
    if (!value) continue;
    field.data = value->data();
    field.size = static_cast<std::uint32_t>(value->size());
  }
  Buffer out;
  sql::Encoder encoder(format, table.columns);
  encoder.begin(out);
  encoder.rows({.columns = table.columns, .fields = fields, .rows = fields.size() / table.columns.size()}, out);
  encoder.end(out);
  return std::string(out.view());
}

class Random {
 public:
  std::size_t below(std::size_t bound) { return generator_() % bound; }
  Text text() {
    if (below(8) == 0) return std::nullopt;
    static constexpr const char* pieces[] = {
        "a",          "0",      " ",    "\"",   "\\",   ",",      "\n",
        "\r",         "\t",     "\x01", "\x1f", "\x7f", "\u00e9", "\u20ac",
        "\U0001F600", "\u2028", "/",    "{",    "]",    "null",   "0123456789abcdef",
        "\\u0000",    "\\."};
    std::string text;
    for (std::size_t i = below(below(4) == 0 ? 200 : 6); i != 0; --i) text += pieces[below(std::size(pieces))];
    return text;
  }
  Text number() {
    static constexpr const char* numbers[] = {"0", "-1", "1.50", "1e+400", "123456789012345678901234567890", "-0.001"};
    if (below(8) == 0) return std::nullopt;
    return numbers[below(std::size(numbers))];
  }
  Text boolean() {
    if (below(8) == 0) return std::nullopt;
    return below(2) == 0 ? "t" : "f";
  }
  Text json() {
    static constexpr const char* values[] = {"{}", "[]", "{\"a\": [1, {\"b\":\"\\\"]\"}]}", "[\"\\u20ac\", null]"};
    if (below(8) == 0) return std::nullopt;
    return values[below(std::size(values))];
  }

 private:
  std::mt19937 generator_{20261122};
};

// The kind and text that the reader should give for a value.
std::pair<Kind, std::string> expected(const Text& value, sql::Form form, BodyFormat format) {
  if (!value) return {Kind::null, ""};
  if (format == BodyFormat::csv) return {Kind::string, *value};
  switch (form) {
    case sql::Form::number:
      return {Kind::number, *value};
    case sql::Form::boolean:
      return {Kind::boolean, *value == "t" ? "true" : "false"};
    case sql::Form::json:
      return {Kind::json, *value};
    default:
      return {Kind::string, *value};
  }
}

TEST(RowReader, ReadsWhatTheEncoderWrites) {
  static constexpr std::pair<sql::Format, BodyFormat> formats[] = {{sql::Format::json, BodyFormat::json},
                                                                   {sql::Format::ndjson, BodyFormat::ndjson},
                                                                   {sql::Format::csv, BodyFormat::csv},
                                                                   {sql::Format::csj, BodyFormat::csj}};
  Random random;
  for (int round = 0; round < 60; ++round) {
    Table table;
    Shape shape;
    for (std::size_t i = 0, width = 1 + random.below(6); i < width; ++i) {
      static constexpr sql::Form forms[] = {sql::Form::text, sql::Form::number, sql::Form::boolean, sql::Form::json};
      auto type = std::make_shared<sql::Type>();
      type->form = forms[random.below(std::size(forms))];
      std::string name = random.text().value_or("") + std::to_string(i);
      std::erase(name, '.');  // it would be a path
      shape.names.push_back(name);
      table.columns.push_back({name, type});
    }
    for (std::size_t row = 0, rows = random.below(40); row < rows; ++row) {
      for (const sql::Column& column : table.columns) {
        switch (column.type->form) {
          case sql::Form::number:
            table.values.push_back(random.number());
            break;
          case sql::Form::boolean:
            table.values.push_back(random.boolean());
            break;
          case sql::Form::json:
            table.values.push_back(random.json());
            break;
          default:
            table.values.push_back(random.text());
            break;
        }
      }
    }
    for (const auto& [written, read] : formats) {
      const std::string body = encode(table, written);
      const auto reader = RowReader::make(read, shape);
      std::size_t fed = 0;
      std::size_t at = 0;
      for (RowReader::Next next{}; (next = reader->next()) != RowReader::Next::end;) {
        if (next == RowReader::Next::need_more) {
          if (fed == body.size()) {
            reader->finish();
            continue;
          }
          const std::size_t size = std::min(1 + random.below(300), body.size() - fed);
          reader->feed(std::string_view(body).substr(fed, size));
          fed += size;
          continue;
        }
        ASSERT_EQ(next, RowReader::Next::row)
            << reader->fault().reason << " in line " << reader->fault().line << " of\n"
            << body;
        ASSERT_EQ(reader->row().size(), table.columns.size());
        for (std::size_t i = 0; i < table.columns.size(); ++i, ++at) {
          const auto [kind, text] = expected(table.values.at(at), table.columns[i].type->form, read);
          ASSERT_EQ(reader->row()[i].kind, kind) << body;
          ASSERT_EQ(reader->row()[i].text, text) << body;
        }
      }
      EXPECT_EQ(at, table.values.size());
      EXPECT_FALSE(reader->single());
    }
  }
}

// The position of a value in a good row, after a header, after empty lines, and after a row that is too long.
TEST(RowReader, SaysWhereAValueIs) {
  struct Case {
    BodyFormat format;
    std::string_view body;
    std::string faults;
  };
  const Case cases[] = {
      {BodyFormat::json, "[\n{\"a\":1},\n\n {\n\"a\":2}\n,3,{}]", "2:0 /0/c/d, 4:1 /1/c/d, 6:3 /3/c/d, "},
      {BodyFormat::json, "\n\n{\"a\":1}\n", "3:0 /c/d, "},
      {BodyFormat::ndjson, "\n \n{\"a\":1}\r\n\r\n{}", "3:0 /c/d, 5:1 /c/d, "},
      {BodyFormat::csv, "\"a\"\r\n1\r\n\"\n\"\n\"\n\n0123456789012345\n\"\n2\n", "2:0 c.d, 3:1 c.d, 9:3 c.d, "},
      {BodyFormat::csj, "\"a\"\n\n1\n01234567890123456789\n2", "3:0 c.d, 5:2 c.d, "},
      {BodyFormat::form, "a=1", "1:0 c.d, "}};
  const Shape shape{{"a", "c.d"}};
  for (const Case& of : cases) {
    for (const std::size_t piece : {1UZ, 3UZ, of.body.size()}) {
      const auto reader = RowReader::make(of.format, shape, {.row_bytes = 15});
      std::string faults;
      std::string_view rest = of.body;
      for (RowReader::Next next{}; (next = reader->next()) != RowReader::Next::end;) {
        ASSERT_NE(next, RowReader::Next::broken) << reader->fault().reason;
        if (next == RowReader::Next::row) {
          const RowFault fault = reader->fault_of(1, "why");
          EXPECT_EQ(fault.reason, "why");
          faults += std::to_string(fault.line) + ':' + std::to_string(fault.row) + ' ' + fault.pointer + ", ";
        } else if (next == RowReader::Next::need_more) {
          if (rest.empty()) reader->finish();
          if (!rest.empty()) reader->feed(rest.substr(0, piece));
          rest.remove_prefix(std::min(piece, rest.size()));
        }
      }
      EXPECT_EQ(faults, of.faults) << of.body;
    }
  }
}

// A body of any length, in pieces of any size, needs only the memory of a few rows.
TEST(RowReader, ReadsLongBodies) {
  static constexpr std::pair<BodyFormat, std::string_view> rows[] = {
      {BodyFormat::json, ",{\"a\":\"x\\ty\",\"b\":\"\xc3\xa9\"}\n"},
      {BodyFormat::ndjson, "{\"a\":\"x\\ty\",\"b\":\"\xc3\xa9\"}\n"},
      {BodyFormat::csv, "\"x\ty\",\xc3\xa9\n"},
      {BodyFormat::csj, "\"x\\ty\",\"\xc3\xa9\"\n"}};
  const Shape shape{{"a", "b"}};
  for (const auto& [format, row] : rows) {
    for (const std::size_t piece : {1UZ, 7UZ, 4096UZ, 100'000UZ}) {
      const auto reader = RowReader::make(format, shape);
      constexpr std::size_t count = 20'000;
      std::string body;
      if (format == BodyFormat::csv) body = "a,b\n";
      if (format == BodyFormat::csj) body = "\"a\",\"b\"\n";
      for (std::size_t i = 0; i < count; ++i) body += row;
      if (format == BodyFormat::json) {
        body[0] = '[';
        body += ']';
      }
      std::size_t read = 0;
      std::string_view rest = body;
      for (RowReader::Next next{}; (next = reader->next()) != RowReader::Next::end;) {
        if (next == RowReader::Next::need_more) {
          if (rest.empty()) reader->finish();
          if (!rest.empty()) reader->feed(rest.substr(0, piece));
          rest.remove_prefix(std::min(piece, rest.size()));
          continue;
        }
        ASSERT_EQ(next, RowReader::Next::row) << reader->fault().reason;
        ASSERT_EQ(reader->row()[0].text, "x\ty");
        ASSERT_EQ(reader->row()[1].text, "\u00e9");
        ++read;
      }
      EXPECT_EQ(read, count);
    }
  }
}

// A row that arrives byte by byte is not parsed again for each byte.
TEST(RowReader, ReadsALongRowByteByByte) {
  const std::string text(900'000, 'x');
  static constexpr std::pair<BodyFormat, std::pair<std::string_view, std::string_view>> around[] = {
      {BodyFormat::json, {"{\"a\":\"", "\"}"}},
      {BodyFormat::ndjson, {"{\"a\":\"", "\"}"}},
      {BodyFormat::csv, {"a\n\"", "\""}},
      {BodyFormat::csj, {"\"a\"\n\"", "\""}},
      {BodyFormat::form, {"a=", ""}}};
  const Shape shape{{"a"}};
  for (const auto& [format, ends] : around) {
    const auto reader = RowReader::make(format, shape);
    const std::string body = std::string(ends.first) + text + std::string(ends.second);
    for (const char& byte : body) {
      ASSERT_EQ(reader->next(), RowReader::Next::need_more);
      reader->feed({&byte, 1});
    }
    RowReader::Next next = reader->next();
    if (next == RowReader::Next::need_more) {
      reader->finish();
      next = reader->next();
    }
    ASSERT_EQ(next, RowReader::Next::row) << reader->fault().reason;
    EXPECT_EQ(reader->row()[0].text, text);
  }
}

}  // namespace
}  // namespace sluice::api
