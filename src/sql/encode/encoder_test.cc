#include "sql/encode/encoder.h"

#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace sluice::sql {
namespace {

using TypePointer = std::shared_ptr<const Type>;
using Value = std::optional<std::string>;

TypePointer of(Form form) {
  auto type = std::make_shared<Type>();
  type->form = form;
  return type;
}

TypePointer array_of(TypePointer element, char delimiter = ',') {
  auto type = std::make_shared<Type>();
  type->form = Form::array;
  type->delimiter = delimiter;
  type->element = std::move(element);
  return type;
}

TypePointer composite_of(std::vector<Attribute> attributes) {
  auto type = std::make_shared<Type>();
  type->form = Form::composite;
  type->attributes = std::move(attributes);
  return type;
}

// A block in which each value has its own exact allocation, so that a sanitizer detects a read past its end.
class Table {
 public:
  explicit Table(std::vector<Column> header) : columns(std::move(header)) {}

  Table& row(const std::vector<Value>& values, Form form = Form::text) {
    for (const Value& value : values) {
      Field field;
      field.form = form;
      if (value) {
        memory_.push_back(std::make_unique<char[]>(value->size()));
        std::memcpy(memory_.back().get(), value->data(), value->size());
        field.data = memory_.back().get();
        field.size = static_cast<std::uint32_t>(value->size());
      }
      fields_.push_back(field);
    }
    ++rows_;
    return *this;
  }

  [[nodiscard]] Block block() const { return {.columns = columns, .fields = fields_, .rows = rows_, .last = true}; }

  std::vector<Column> columns;

 private:
  std::vector<std::unique_ptr<char[]>> memory_;
  std::vector<Field> fields_;
  std::size_t rows_ = 0;
};

std::string encode(Format format, const Table& table, EncodeOptions options = {}) {
  Buffer out;
  Encoder encoder(format, table.columns, options);
  encoder.begin(out);
  encoder.rows(table.block(), out);
  encoder.end(out);
  return std::string(out.view());
}

// Returns one value in a row of its own, in the format csj.
std::string csj_value(const TypePointer& type, const Value& value, Form form = Form::text) {
  Table table({{"v", type}});
  table.row({value}, form);
  std::string text = encode(Format::csj, table);
  EXPECT_TRUE(text.starts_with("\"v\"\n") && text.ends_with("\n")) << text;
  return text.substr(4, text.size() - 5);
}

std::string json_value(const TypePointer& type, const Value& value) {
  Table table({{"v", type}});
  table.row({value});
  std::string text = encode(Format::json, table);
  EXPECT_TRUE(text.starts_with("[{\"v\":") && text.ends_with("}]\n")) << text;
  return text.substr(6, text.size() - 9);
}

std::string csv_value(const TypePointer& type, const Value& value, Form form = Form::text) {
  Table table({{"v", type}, {"w", of(Form::text)}});
  table.row({value, "w"}, form);
  std::string text = encode(Format::csv, table);
  EXPECT_TRUE(text.starts_with("v,w\n") && text.ends_with(",w\n")) << text;
  return text.substr(4, text.size() - 7);
}

Table people() {
  Table table({{"id", of(Form::number)}, {"na\"me", of(Form::text)}, {"adult", of(Form::boolean)}});
  table.row({"1", "Ann", "t"}).row({"22", std::nullopt, "f"}).row({"-333", "say \"a,b\"\n", std::nullopt});
  return table;
}

TEST(Encoder, WritesJson) {
  EXPECT_EQ(encode(Format::json, people()),
            "[{\"id\":1,\"na\\\"me\":\"Ann\",\"adult\":true},\n"
            "{\"id\":22,\"na\\\"me\":null,\"adult\":false},\n"
            "{\"id\":-333,\"na\\\"me\":\"say \\\"a,b\\\"\\n\",\"adult\":null}]\n");
}

TEST(Encoder, WritesNdjson) {
  EXPECT_EQ(encode(Format::ndjson, people()),
            "{\"id\":1,\"na\\\"me\":\"Ann\",\"adult\":true}\n"
            "{\"id\":22,\"na\\\"me\":null,\"adult\":false}\n"
            "{\"id\":-333,\"na\\\"me\":\"say \\\"a,b\\\"\\n\",\"adult\":null}\n");
}

TEST(Encoder, WritesCsv) {
  EXPECT_EQ(encode(Format::csv, people()),
            "id,\"na\"\"me\",adult\n"
            "1,Ann,t\n"
            "22,,f\n"
            "-333,\"say \"\"a,b\"\"\n\",\n");
}

TEST(Encoder, WritesCsj) {
  EXPECT_EQ(encode(Format::csj, people()),
            "\"id\",\"na\\\"me\",\"adult\"\n"
            "1,\"Ann\",true\n"
            "22,null,false\n"
            "-333,\"say \\\"a,b\\\"\\n\",null\n");
}

TEST(Encoder, WritesAnObject) {
  EXPECT_EQ(encode(Format::json, people(), {.object = true}), "{\"id\":1,\"na\\\"me\":\"Ann\",\"adult\":true}\n");
  EXPECT_EQ(encode(Format::ndjson, people(), {.object = true}), "{\"id\":1,\"na\\\"me\":\"Ann\",\"adult\":true}\n");
  EXPECT_EQ(encode(Format::csv, people(), {.object = true}), "id,\"na\"\"me\",adult\n1,Ann,t\n");
  EXPECT_EQ(encode(Format::json, Table(people().columns), {.object = true}), "");
}

TEST(Encoder, WritesNoRows) {
  const Table none(people().columns);
  EXPECT_EQ(encode(Format::json, none), "[]\n");
  EXPECT_EQ(encode(Format::ndjson, none), "");
  EXPECT_EQ(encode(Format::csv, none), "id,\"na\"\"me\",adult\n");
  EXPECT_EQ(encode(Format::csj, none), "\"id\",\"na\\\"me\",\"adult\"\n");
}

TEST(Encoder, WritesRowsWithoutColumns) {
  Table table({});
  table.row({}).row({}).row({});
  EXPECT_EQ(encode(Format::json, table), "[{},\n{},\n{}]\n");
  EXPECT_EQ(encode(Format::ndjson, table), "{}\n{}\n{}\n");
  EXPECT_EQ(encode(Format::csv, table), "\n\n\n\n");
  EXPECT_EQ(encode(Format::csj, table), "\n\n\n\n");
}

TEST(Encoder, CountsRowsAcrossBlocksAndSharesALayout) {
  const Table table = people();
  for (const Format format : {Format::json, Format::ndjson, Format::csv, Format::csj}) {
    const Layout layout(format, table.columns);
    const Block all = table.block();
    for (std::size_t cut = 0; cut <= all.rows; ++cut) {
      Buffer out;
      Encoder encoder(layout);
      encoder.begin(out);
      const std::size_t width = all.columns.size();
      encoder.rows({.columns = all.columns, .fields = all.fields.first(cut * width), .rows = cut}, out);
      EXPECT_EQ(encoder.row_count(), cut);
      encoder.rows({.columns = all.columns, .fields = all.fields.subspan(cut * width), .rows = all.rows - cut}, out);
      EXPECT_EQ(encoder.row_count(), all.rows);
      encoder.end(out);
      EXPECT_EQ(out.view(), encode(format, table));
    }
  }
}

TEST(Encoder, AppendsToWhatIsThere) {
  Buffer out;
  out.append("before");
  out.consume(2);
  Encoder encoder(Format::ndjson, people().columns);
  encoder.rows(people().block(), out);
  EXPECT_EQ(out.view(), "fore" + encode(Format::ndjson, people()));
}

TEST(Encoder, WritesManyRowsAndWideNames) {
  std::vector<Column> columns;
  std::vector<Value> row;
  std::string line = "{";
  for (std::size_t i = 0; i < 70; ++i) {
    columns.push_back({std::string(i, 'k'), of(Form::text)});
    row.emplace_back(std::string(i * 3, 'v'));
    line += (i == 0 ? "\"" : ",\"") + std::string(i, 'k') + "\":\"" + std::string(i * 3, 'v') + '"';
  }
  line += "}\n";
  Table table(columns);
  std::string expected;
  for (int i = 0; i < 300; ++i) {
    table.row(row);
    expected += line;
  }
  EXPECT_EQ(encode(Format::ndjson, table), expected);
}

TEST(Format, HasNames) {
  EXPECT_EQ(media_type(Format::json), "application/json");
  EXPECT_EQ(media_type(Format::ndjson), "application/x-ndjson");
  EXPECT_EQ(media_type(Format::csv), "text/csv; charset=utf-8; header=present");
  EXPECT_EQ(media_type(Format::csj), "application/csj");
  for (const Format format : {Format::json, Format::ndjson, Format::csv, Format::csj}) {
    EXPECT_EQ(format_of_extension(extension(format)), format);
  }
  EXPECT_EQ(format_of_extension("xml"), std::nullopt);
  EXPECT_EQ(format_of_extension(""), std::nullopt);
}

TEST(Json, EscapesEveryByteAtEveryPlace) {
  for (int byte = 1; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    std::string escaped(1, c);
    if (c == '"') escaped = "\\\"";
    if (c == '\\') escaped = "\\\\";
    if (byte < 0x20) {
      static constexpr char digits[] = "0123456789abcdef";
      escaped = std::string("\\u00") + digits[byte >> 4] + digits[byte & 15];
    }
    if (c == '\b') escaped = "\\b";
    if (c == '\f') escaped = "\\f";
    if (c == '\n') escaped = "\\n";
    if (c == '\r') escaped = "\\r";
    if (c == '\t') escaped = "\\t";
    for (std::size_t size = 1; size < 50; ++size) {
      for (std::size_t at = 0; at < size; ++at) {
        std::string text(size, 'x');
        text[at] = c;
        const std::string expected = '"' + std::string(at, 'x') + escaped + std::string(size - at - 1, 'x') + '"';
        ASSERT_EQ(csj_value(of(Form::text), text), expected) << byte << " at " << at << " of " << size;
      }
    }
  }
}

TEST(Json, EscapesRunsOfAnyLength) {
  for (std::size_t size : {0, 1, 15, 16, 17, 1023, 1024, 1025, 5000}) {
    std::string expected = "\"";
    for (std::size_t i = 0; i < size; ++i) expected += "\\u0001";
    EXPECT_EQ(csj_value(of(Form::text), std::string(size, '\1')), expected + '"') << size;
    EXPECT_EQ(csj_value(of(Form::text), std::string(size, 'a')), '"' + std::string(size, 'a') + '"') << size;
  }
}

TEST(Json, WritesNumbersAndQuotesWhatIsNone) {
  for (const char* number :
       {"0", "1", "12", "123", "1234", "12345678", "123456789012345", "1234567890123456", "-1", "-0", "1.5", "0.001",
        "-0.5", "1e+20", "1e-05", "5e-324", "1.7976931348623157e+308", "123456789012345678901234567890.123456789"}) {
    EXPECT_EQ(csj_value(of(Form::number), number), number);
  }
  for (const char* text : {"NaN", "Infinity", "-Infinity", "", "-", "01", "00", "1.", ".5", "1e", "1e+", "1x", "x1",
                           "+1", "12345678901234567x", "0123456789012345678", "1 "}) {
    EXPECT_EQ(csj_value(of(Form::number), text), '"' + std::string(text) + '"');
  }
  EXPECT_EQ(csj_value(of(Form::number), "1\n"), "\"1\\n\"");
  const std::string digits(100'000, '7');
  EXPECT_EQ(csj_value(of(Form::number), digits), digits);
  EXPECT_EQ(csj_value(of(Form::number), digits + "\""), '"' + digits + "\\\"\"");
}

TEST(Json, WritesBooleans) {
  EXPECT_EQ(csj_value(of(Form::boolean), "t"), "true");
  EXPECT_EQ(csj_value(of(Form::boolean), "f"), "false");
  EXPECT_EQ(csj_value(of(Form::boolean), ""), "false");
}

TEST(Json, PassesJsonThrough) {
  const std::string text = "{\"a\":\r\n [1,\n\t\"two\\n\"],\n\n \"a longer one\" : 12345678901234567890 \n}";
  std::string one_line = text;
  for (char& byte : one_line) {
    if (byte == '\r' || byte == '\n') byte = ' ';
  }
  EXPECT_EQ(json_value(of(Form::json), text), text);
  EXPECT_EQ(csj_value(of(Form::json), text), one_line);
  EXPECT_EQ(csj_value(of(Form::json), ""), "\"\"");
  const std::string long_one = "[\"" + std::string(10'000, 'x') + "\",\n1]";
  EXPECT_EQ(json_value(of(Form::json), long_one), long_one);
}

TEST(Json, WritesTimestamps) {
  const TypePointer plain = of(Form::timestamp);
  EXPECT_EQ(csj_value(plain, "2026-11-21 18:48:34.5"), "\"2026-11-21T18:48:34.5\"");
  EXPECT_EQ(csj_value(plain, "0044-03-15 12:00:00 BC"), "\"0044-03-15T12:00:00 BC\"");
  EXPECT_EQ(csj_value(plain, "294276-12-31 23:59:59.999999"), "\"294276-12-31T23:59:59.999999\"");
  const TypePointer zoned = of(Form::timestamp_tz);
  EXPECT_EQ(csj_value(zoned, "2026-11-21 18:48:34.5+00"), "\"2026-11-21T18:48:34.5+00:00\"");
  EXPECT_EQ(csj_value(zoned, "2026-11-21 18:48:34-11"), "\"2026-11-21T18:48:34-11:00\"");
  EXPECT_EQ(csj_value(zoned, "2026-11-21 18:48:34+05:30"), "\"2026-11-21T18:48:34+05:30\"");
  EXPECT_EQ(csj_value(zoned, "1890-11-21 18:48:34-03:30:52"), "\"1890-11-21T18:48:34-03:30:52\"");
  EXPECT_EQ(csj_value(zoned, "0044-03-15 12:00:00+00 BC"), "\"0044-03-15T12:00:00+00:00 BC\"");
  EXPECT_EQ(csj_value(zoned, "0044-03-15 12:00:00+00:19:32 BC"), "\"0044-03-15T12:00:00+00:19:32 BC\"");
  for (const TypePointer& type : {plain, zoned}) {
    EXPECT_EQ(csj_value(type, "infinity"), "\"infinity\"");
    EXPECT_EQ(csj_value(type, "-infinity"), "\"-infinity\"");
    EXPECT_EQ(csj_value(type, ""), "\"\"");
    EXPECT_EQ(csj_value(type, "2 \"\n"), "\"2 \\\"\\n\"");
    EXPECT_EQ(csj_value(type, "2" + std::string(2000, ' ')), "\"2" + std::string(2000, ' ') + '"');
  }
  EXPECT_EQ(csj_value(zoned, " BC"), "\" BC\"");
  EXPECT_EQ(csj_value(zoned, "1 BC"), "\"1TBC\"");
}

TEST(Json, WritesBytes) {
  EXPECT_EQ(csj_value(of(Form::bytes), std::string("\n\xff\0", 3)), "\"\\\\x0aff00\"");
  EXPECT_EQ(csj_value(of(Form::bytes), ""), "\"\\\\x\"");
  EXPECT_EQ(csj_value(of(Form::bytes), std::string(3000, '\xab')).size(), 6000 + 5);
}

TEST(Json, TakesTheFormFromAFieldWithoutType) {
  const TypePointer dynamic = of(Form::dynamic);
  EXPECT_EQ(csj_value(dynamic, "12", Form::number), "12");
  EXPECT_EQ(csj_value(dynamic, "12", Form::text), "\"12\"");
  EXPECT_EQ(csj_value(dynamic, "\1", Form::bytes), "\"\\\\x01\"");
  EXPECT_EQ(csj_value(dynamic, "{1}", Form::array), "\"{1}\"");
  EXPECT_EQ(csj_value(dynamic, "(1)", Form::composite), "\"(1)\"");
  EXPECT_EQ(csj_value(dynamic, "12", Form::dynamic), "\"12\"");
  EXPECT_EQ(csj_value(dynamic, std::nullopt, Form::number), "null");
  EXPECT_EQ(csj_value(nullptr, "no type"), "\"no type\"");
  EXPECT_EQ(csv_value(dynamic, "\1", Form::bytes), "\\x01");
}

TEST(Json, WritesArrays) {
  const TypePointer numbers = array_of(of(Form::number));
  EXPECT_EQ(csj_value(numbers, "{}"), "[]");
  EXPECT_EQ(csj_value(numbers, "{1}"), "[1]");
  EXPECT_EQ(csj_value(numbers, "{1,NULL,NaN,-2.5}"), "[1,null,\"NaN\",-2.5]");
  EXPECT_EQ(csj_value(numbers, "{{1,2},{3,4}}"), "[[1,2],[3,4]]");
  EXPECT_EQ(csj_value(numbers, "{{{1},{2}},{{3},{NULL}}}"), "[[[1],[2]],[[3],[null]]]");
  EXPECT_EQ(csj_value(numbers, "[0:2]={1,2,3}"), "[1,2,3]");
  EXPECT_EQ(csj_value(numbers, "[-1:0][2:3]={{1,2},{3,4}}"), "[[1,2],[3,4]]");
  EXPECT_EQ(csj_value(numbers, std::nullopt), "null");
  const TypePointer texts = array_of(of(Form::text));
  EXPECT_EQ(csj_value(texts, "{a,\"\",\"b c\",\"NULL\",NULL,null,\"x\\\"y\\\\z\",\"{,}\"}"),
            "[\"a\",\"\",\"b c\",\"NULL\",null,\"null\",\"x\\\"y\\\\z\",\"{,}\"]");
  EXPECT_EQ(csj_value(texts, "{\"\\\\\"}"), "[\"\\\\\"]");
  EXPECT_EQ(csj_value(texts, "{\x01}"), "[\"\\u0001\"]");
  EXPECT_EQ(csj_value(array_of(of(Form::boolean)), "{t,f,NULL}"), "[true,false,null]");
  EXPECT_EQ(csj_value(array_of(of(Form::text), ';'), "{(1,1),(0,0);(2,2),(1,1)}"), "[\"(1,1),(0,0)\",\"(2,2),(1,1)\"]");
  EXPECT_EQ(csj_value(array_of(of(Form::timestamp_tz)), "{\"2020-01-01 00:00:00+00\",infinity}"),
            "[\"2020-01-01T00:00:00+00:00\",\"infinity\"]");
  EXPECT_EQ(csj_value(array_of(of(Form::timestamp)), "{\"2020-01-01 00:00:00\"}"), "[\"2020-01-01T00:00:00\"]");
  EXPECT_EQ(csj_value(array_of(of(Form::json)), "{\"{\\\"a\\\": \n1}\",1}"), "[{\"a\":  1},1]");
  EXPECT_EQ(json_value(array_of(of(Form::json)), "{\"{\\\"a\\\": \n1}\",1}"), "[{\"a\": \n1},1]");
  EXPECT_EQ(csj_value(array_of(of(Form::bytes)), "{ab}"), "[\"\\\\x6162\"]");
  EXPECT_EQ(csj_value(array_of(nullptr), "{ab}"), "[\"ab\"]");
}

TEST(Json, WritesVectors) {
  const TypePointer vector = array_of(of(Form::number), ' ');
  EXPECT_EQ(csj_value(vector, ""), "[]");
  EXPECT_EQ(csj_value(vector, "1"), "[1]");
  EXPECT_EQ(csj_value(vector, "1 -2 3"), "[1,-2,3]");
  for (const char* text : {" ", "1 ", " 1", "1  2"}) {
    EXPECT_EQ(csj_value(vector, text), '"' + std::string(text) + '"');
  }
}

TEST(Json, WritesComposites) {
  const TypePointer pair = composite_of({{"a", of(Form::number)}, {"b\"", of(Form::text)}});
  EXPECT_EQ(csj_value(pair, "(1,x)"), "{\"a\":1,\"b\\\"\":\"x\"}");
  EXPECT_EQ(csj_value(pair, "(,)"), "{\"a\":null,\"b\\\"\":null}");
  EXPECT_EQ(csj_value(pair, "(1,\"\")"), "{\"a\":1,\"b\\\"\":\"\"}");
  EXPECT_EQ(csj_value(pair, "(1,\"a \"\"b\"\" \\\\ ,()\")"), "{\"a\":1,\"b\\\"\":\"a \\\"b\\\" \\\\ ,()\"}");
  EXPECT_EQ(csj_value(pair, "(1,\"\"\"\")"), "{\"a\":1,\"b\\\"\":\"\\\"\"}");
  EXPECT_EQ(csj_value(composite_of({}), "()"), "{}");
  EXPECT_EQ(csj_value(composite_of({{"a", of(Form::text)}}), "()"), "{\"a\":null}");
  EXPECT_EQ(csj_value(composite_of({{"a", nullptr}}), "(x)"), "{\"a\":\"x\"}");
}

TEST(Json, NestsArraysAndComposites) {
  const TypePointer pair = composite_of({{"a", of(Form::number)}, {"b", array_of(of(Form::text))}});
  EXPECT_EQ(csj_value(pair, R"x((1,"{x,""y z"",""q\\""""}"))x"), R"x({"a":1,"b":["x","y z","q\""]})x");
  EXPECT_EQ(csj_value(array_of(pair), R"x({"(1,\"{x,\"\"y z\"\"}\")",NULL,"(,)"})x"),
            R"x([{"a":1,"b":["x","y z"]},null,{"a":null,"b":null}])x");
  const TypePointer outer = composite_of({{"p", pair}, {"ps", array_of(pair)}});
  EXPECT_EQ(csj_value(outer, R"x(("(1,{x})","{""(2,{y})"",NULL}"))x"),
            R"x({"p":{"a":1,"b":["x"]},"ps":[{"a":2,"b":["y"]},null]})x");
}

TEST(Json, WritesMalformedArraysAsText) {
  const TypePointer numbers = array_of(array_of(of(Form::number)));
  for (const TypePointer& type : {array_of(of(Form::number)), numbers}) {
    for (const char* text : {"",       "{",     "}",        "{1",     "{1,",      "{1,}",   "{,1}",    "{1}}",
                             "{{1}",   "{1}x",  "x{1}",     "1",      "[0:1]",    "[0:1]=", "[x]={1}", "{1\\2}",
                             "{1{2}}", "{\"1}", "{\"1\"2}", "{\"1\\", "{\"1\\\"", "{}}",    "{},{}",   "{1},"}) {
      std::string expected = "\"";
      for (const char* at = text; *at != 0; ++at)
        expected += (*at == '"' || *at == '\\') ? std::string{'\\', *at} : std::string{*at};
      EXPECT_EQ(csj_value(type, text), expected + '"') << text;
    }
  }
  EXPECT_EQ(csj_value(array_of(of(Form::number)), "{1x}"), "[\"1x\"]");
}

TEST(Json, WritesMalformedCompositesAsText) {
  const TypePointer pair = composite_of({{"a", of(Form::text)}, {"b", of(Form::text)}});
  for (const char* text : {"", "(", ")", "()", "(1)", "(1,2", "(1,2,3)", "(1,2)x", "1,2", "(1,2\\)", "(1,\"2)",
                           "(1,\"2\"3)", "(1,((2)", "(\"1\\", "(\"1\",", "(\""}) {
    std::string expected = "\"";
    for (const char* at = text; *at != 0; ++at)
      expected += (*at == '"' || *at == '\\') ? std::string{'\\', *at} : std::string{*at};
    EXPECT_EQ(csj_value(pair, text), expected + '"') << text;
  }
  EXPECT_EQ(csj_value(composite_of({}), "(1)"), "\"(1)\"");
  // Only the broken element becomes a string.
  EXPECT_EQ(csj_value(array_of(pair), R"x({"(1,2)",(1})x"), R"x([{"a":"1","b":"2"},"(1"])x");
}

TEST(Csv, QuotesAsCopyDoes) {
  const TypePointer text = of(Form::text);
  EXPECT_EQ(csv_value(text, "plain"), "plain");
  EXPECT_EQ(csv_value(text, std::nullopt), "");
  EXPECT_EQ(csv_value(text, ""), "\"\"");
  EXPECT_EQ(csv_value(text, " spaces\tand tabs "), " spaces\tand tabs ");
  EXPECT_EQ(csv_value(text, "\\."), "\\.");
  EXPECT_EQ(csv_value(of(Form::boolean), "t"), "t");
  EXPECT_EQ(csv_value(of(Form::bytes), "\n\xff"), "\\x0aff");
  EXPECT_EQ(csv_value(of(Form::bytes), std::string(2000, '\n')).size(), 4002);
  EXPECT_EQ(csv_value(array_of(text), "{a,b}"), "\"{a,b}\"");
  EXPECT_EQ(csv_value(of(Form::json), "{\"a\":\n1}"), "\"{\"\"a\"\":\n1}\"");
  for (const char special : {',', '"', '\n', '\r'}) {
    for (std::size_t size : {1, 2, 3, 4, 7, 8, 15, 16, 17, 31, 32, 33, 1024, 1025, 3000}) {
      for (std::size_t at = 0; at < size; at += size < 40 ? 1 : 333) {
        std::string value(size, 'x');
        value[at] = special;
        std::string expected = '"' + value + '"';
        if (special == '"') expected.insert(at + 1, 1, '"');
        ASSERT_EQ(csv_value(text, value), expected) << size << ' ' << at;
      }
    }
  }
}

TEST(Csv, QuotesTheEndOfDataMarkAlone) {
  Table table({{"\\.", of(Form::text)}});
  table.row({"\\."}).row({"\\.x"}).row({std::nullopt}).row({""});
  EXPECT_EQ(encode(Format::csv, table), "\"\\.\"\n\"\\.\"\n\\.x\n\n\"\"\n");
}

// Values of 100 MB are measured before memory is reserved: the output has the exact size, not six times that.
TEST(Encoder, WritesHundredMegabytes) {
  constexpr std::size_t repeats = 10'000'000;
  constexpr std::string_view piece = "0123456\"\n,";
  std::string text;
  text.reserve(repeats * piece.size());
  for (std::size_t i = 0; i < repeats; ++i) text += piece;
  const std::vector<Column> columns{{"v", of(Form::text)}};
  const Field field{text.data(), static_cast<std::uint32_t>(text.size())};
  const Block block{.columns = columns, .fields = {&field, 1}, .rows = 1};
  const auto check = [&](Format format, std::string_view escaped, std::string_view before, std::string_view after) {
    Buffer out;
    Encoder encoder(format, columns);
    encoder.rows(block, out);
    ASSERT_EQ(out.size(), repeats * escaped.size() + before.size() + after.size());
    EXPECT_LE(out.capacity(), out.size() + 4096);
    EXPECT_TRUE(out.view().starts_with(before));
    EXPECT_TRUE(out.view().ends_with(after));
    std::string_view body = out.view().substr(before.size());
    for (std::size_t i = 0; i < repeats; ++i, body.remove_prefix(escaped.size())) {
      ASSERT_TRUE(body.starts_with(escaped)) << i;
    }
  };
  check(Format::ndjson, "0123456\\\"\\n,", "{\"v\":\"", "\"}\n");
  check(Format::csv, "0123456\"\"\n,", "\"", "\"\n");
}

}  // namespace
}  // namespace sluice::sql
