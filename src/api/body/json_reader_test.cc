#include "api/body/json_reader.h"

#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>
#include <simdjson.h>

#include "api/body/test_support.h"

namespace sluice::api {
namespace {

const std::vector<std::string> ab{"a", "b"};

std::string json(std::string_view body, const std::vector<std::string>& names = ab, const RowLimits& limits = {},
                 bool allow_unknown = false) {
  return said(BodyFormat::json, names, body, limits, allow_unknown);
}

std::string ndjson(std::string_view body, const std::vector<std::string>& names = ab, const RowLimits& limits = {}) {
  return said(BodyFormat::ndjson, names, body, limits);
}

std::string value(std::string_view text) {
  std::string result = json("{\"a\":" + std::string(text) + "}", {"a"});
  if (result.ends_with("\nend of one")) return result.substr(0, result.size() - 11);
  return result;
}

TEST(Json, ReadsAnObject) {
  EXPECT_EQ(json(R"({"a":"x","b":1.50})"), "\"x\" 1.50\nend of one");
  EXPECT_EQ(json(" \n{ \"b\" : true ,\r\n\t\"a\" : null } \n"), "null true\nend of one");
  EXPECT_EQ(json("{}"), "- -\nend of one");
  EXPECT_EQ(json("\xef\xbb\xbf{\"a\":1}"), "1 -\nend of one");
}

TEST(Json, ReadsAnArray) {
  EXPECT_EQ(json(R"([{"a":1,"b":2},{"b":3},{"b":4,"a":5}])"), "1 2\n- 3\n5 4\nend");
  EXPECT_EQ(json("[ {\"a\":1}\n,\n{\"a\":2} ]\n"), "1 -\n2 -\nend");
  EXPECT_EQ(json("[]"), "end");
  EXPECT_EQ(json(" [ ] "), "end");
  EXPECT_EQ(json("[{}]"), "- -\nend");
}

TEST(Json, KeepsKindsAndTexts) {
  for (const char* number : {"0", "-0", "1", "12", "1.50", "1e400", "1E+5", "-1.5e-300", "0.0",
                             "123456789012345678901234567890123456789012345678901234567890"}) {
    EXPECT_EQ(value(number), number);
  }
  EXPECT_EQ(value("true"), "true");
  EXPECT_EQ(value("false"), "false");
  EXPECT_EQ(value("null"), "null");
  EXPECT_EQ(value("\"\""), "\"\"");
  EXPECT_EQ(value("[]"), "[]");
  EXPECT_EQ(value("{}"), "{}");
  const std::string nested =
      "{\"x\" : [1, {\"y\":\"]}\\\"\\\\\"}, [[ ]], {}, -1.5e3 ,null,true,\n false],\"\":\"\\u20ac\"}";
  EXPECT_EQ(value(nested), nested);
}

TEST(Json, DecodesStrings) {
  EXPECT_EQ(value(R"("\"\\\/\b\f\n\r\t")"), "\"\"\\/\b\f\n\r\t\"");
  EXPECT_EQ(value(R"("\u0041\u00e9\u20ac\uD83D\uDE00\uffff")"), "\"A\u00e9\u20ac\U0001F600\uffff\"");
  EXPECT_EQ(value("\"\u00e9\u20ac\U0001F600\x7f\""), "\"\u00e9\u20ac\U0001F600\x7f\"");
  EXPECT_EQ(json(R"([{"a":"1\n","b":"2\t3"},{"a":"\u0031","b":"4\/5"}])"), "\"1\n\" \"2\t3\"\n\"1\" \"4/5\"\nend");
  for (std::size_t size = 0; size < 40; ++size) {
    for (std::size_t at = 0; at <= size; ++at) {
      const std::string before(at, 'x');
      const std::string after(size - at, 'y');
      EXPECT_EQ(said_of(BodyFormat::json, {{"a"}}, {}, {"[{\"a\":\"" + before + "\\n" + after + "\"}]"}),
                '"' + before + '\n' + after + "\"\nend");
    }
  }
  // Names are decoded too.
  EXPECT_EQ(json(R"({"\u0061":1,"\"\\":2})", {"a", "\"\\"}), "1 2\nend of one");
}

TEST(Json, RefusesStringsThatNoDatabaseTakes) {
  EXPECT_EQ(json(R"({"a\u0000":1})"), "bad 1:0 a name holds the character NUL\nend of one");
  for (const char* escape : {R"(\ud800)", R"(\udc00)", R"(\ud800x)", R"(\ud800\n)", R"(\ud800\u0041)",
                             R"(\ud800\ud800)", R"(\udc00\ud800)"}) {
    EXPECT_EQ(value('"' + std::string(escape) + '"'), "bad 1:0 /a: a lone surrogate") << escape;
  }
  for (const char* escape : {R"(\x)", R"(\u12)", R"(\u123g)", R"(\U0041)", R"(\ud800\u12)", "\\\n", "\\\x01"}) {
    EXPECT_EQ(value('"' + std::string(escape) + '"'), "bad 1:0 /a: an invalid escape") << escape;
  }
  for (const char* bytes : {"\xff", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82", "\x80", "x\xc3"}) {
    EXPECT_EQ(value('"' + std::string(bytes) + '"'), "bad 1:0 /a: a string is not valid UTF-8");
    EXPECT_EQ(value("[\"" + std::string(bytes) + "\"]"), "bad 1:0 /a: a string is not valid UTF-8");
    EXPECT_EQ(value("\"0123456789abcdef" + std::string(bytes) + "0123456789abcdef\""),
              "bad 1:0 /a: a string is not valid UTF-8");
  }
  for (const char control : {'\0', '\x01', '\t', '\n', '\x1f'}) {
    EXPECT_EQ(value("\"x" + std::string(1, control) + "y\""),
              "bad 1:0 /a: a control character in a string must be escaped");
  }
}

TEST(Json, RefusesWhatIsNoValue) {
  for (const char* text : {"01",   "1.",    ".5",    "+1",      "1e",       "1e+",        "--1", "-",         "-x",
                           "0x1",  "1 2",   "NaN",   "nul",     "truE",     "nulll",      "'x'", "]",         "[1,]",
                           "[,1]", "[1 2]", "{1:2}", "{\"x\"}", "{\"x\":}", "{\"x\":1,}", "{,}", "{\"x\" 1}", "[1}"}) {
    EXPECT_TRUE(value(text).starts_with("bad 1:0 ") || value(text).starts_with("broken 1:0 ")) << value(text);
  }
}

TEST(Json, RefusesFieldsThatAreNotNamed) {
  EXPECT_EQ(json(R"([{"a":1,"admin":true},{"a":2}])"), "bad 1:0 /0/admin: there is no field \"admin\"\n2 -\nend");
  EXPECT_EQ(json(R"({"":1})"), "bad 1:0 /: there is no field \"\"\nend of one");
  EXPECT_EQ(json(R"({"x/y~z":1})"), "bad 1:0 /x~1y~0z: there is no field \"x/y~z\"\nend of one");
  EXPECT_EQ(json(R"({"a":{"b":1,"x":2}})", {"a.b"}), "bad 1:0 /a/x: there is no field \"x\"\nend of one");
  EXPECT_EQ(json(R"({"admin":[1,{"x":2}],"a":1})", ab, {}, true), "1 -\nend of one");
  EXPECT_EQ(json(R"({"a":{"b":1,"x":2}})", {"a.b"}, {}, true), "1\nend of one");
  EXPECT_EQ(json(R"({"a.b":1})", {"a.b"}), "bad 1:0 /a.b: there is no field \"a.b\"\nend of one");
  const std::string name(100, 'n');
  EXPECT_EQ(json("{\"" + name + "\":1}"),
            "bad 1:0 /" + name.substr(0, 64) + "...: there is no field \"" + name.substr(0, 64) + "...\"\nend of one");
  std::string wide;
  for (int i = 0; i < 40; ++i) wide += "\u20ac";
  EXPECT_EQ(shown(wide), wide.substr(0, 63) + "...");
}

TEST(Json, RefusesFieldsThatAreThereTwice) {
  EXPECT_EQ(json(R"([{"a":1,"b":2,"a":3},{"a":4}])"), "bad 1:0 /0/a: the field is there twice\n4 -\nend");
  EXPECT_EQ(json(R"({"a":null,"\u0061":null})"), "bad 1:0 /a: the field is there twice\nend of one");
  EXPECT_EQ(json(R"({"a":{"b":1},"a":{"c":2}})", {"a.b", "a.c"}), "bad 1:0 /a: the field is there twice\nend of one");
  EXPECT_EQ(json(R"({"a":{"b":1,"b":2}})", {"a.b"}), "bad 1:0 /a/b: the field is there twice\nend of one");
}

TEST(Json, ReadsNestedFields) {
  const std::vector<std::string> names{"a.b", "c", "a.d.e"};
  EXPECT_EQ(
      json(R"([{"a":{"b":1,"d":{"e":"x"}},"c":2},{"a":{},"c":3},{"a":null},{},{"a":{"d":null,"b":{"q":1}}}])", names),
      "1 2 \"x\"\n- 3 -\n- - -\n- - -\n{\"q\":1} - -\nend");
  for (const char* scalar : {"1", "\"x\"", "true", "[]", "[{\"b\":1}]"}) {
    EXPECT_EQ(json("{\"a\":" + std::string(scalar) + "}", names), "bad 1:0 /a: an object is expected\nend of one");
    EXPECT_EQ(json("{\"a\":{\"d\":" + std::string(scalar) + "}}", names),
              "bad 1:0 /a/d: an object is expected\nend of one");
  }
}

TEST(Json, GivesObjectsAndRowsAsTheyAre) {
  EXPECT_EQ(json(R"([{"a":{"b":"\n","x":[1]}},{"a":null},{}])", {"a", "a.b"}),
            "{\"b\":\"\\n\",\"x\":[1]} \"\n\"\nnull -\n- -\nend");
  EXPECT_EQ(json("[{\"a\":\"\\t\", \"x\":1},\n {}]", {"", "a"}), "{\"a\":\"\\t\", \"x\":1} \"\t\"\n{} -\nend");
  EXPECT_EQ(json(R"({"a":{"b":{"x":1}}})", {"a", "a.b.c"}), "{\"b\":{\"x\":1}} -\nend of one");
  EXPECT_EQ(json(R"({"a":1,"b":2})", {"b", "a", "b", "b"}), "2 1 2 2\nend of one");
  EXPECT_EQ(json(R"([{},{}])", {}), "\n\nend");
}

TEST(Json, RefusesElementsThatAreNoObjects) {
  EXPECT_EQ(json(R"([1,"x,]",{"a":1},[{"a":2}],null, tru ,{"a":3}])"),
            "bad 1:0 /0: an object is expected\nbad 1:1 /1: an object is expected\n1 -\n"
            "bad 1:3 /3: an object is expected\nbad 1:4 /4: an object is expected\nbad 1:5 /5: an object is expected\n"
            "3 -\nend");
  EXPECT_EQ(json("[a{,}b\",]\", {}]"), "bad 1:0 /0: an object is expected\n- -\nend");
}

TEST(Json, GoesOnBehindABadRow) {
  EXPECT_EQ(json("[{\"a\":1},\n{\"a\":01},\n{\"a\":\"}],{\\\"\", \"b\":}\n,{\"a\":2}]"),
            "1 -\nbad 2:1 /1: a comma or '}' is expected\nbad 3:2 /2/b: a value is expected\n2 -\nend");
  EXPECT_EQ(json("[{\"a\":[1}},{\"a\":2}]]"),
            "bad 1:0 /0/a: a comma or ']' is expected\n2 -\n"
            "broken 1:2 there is something behind the end of the body's value\n");
}

TEST(Json, SaysInWhichLine) {
  EXPECT_EQ(json("\n[\n  {\n    \"a\": 1,\n    \"b\": \"\\n\\n\"\n  },\n  {\n    \"a\": 2,\n    \"x\": 3\n  },\n  "
                 "{\"a\":\n\nx}\n]"),
            "1 \"\n\n\"\nbad 9:1 /1/x: there is no field \"x\"\nbad 13:2 /2/a: a value is expected\nend");
}

TEST(Json, RefusesBodiesThatAreNotWhole) {
  EXPECT_EQ(json(""), "broken 1:0 the body is empty\n");
  EXPECT_EQ(json(" \n\t\n"), "broken 3:0 the body is empty\n");
  EXPECT_EQ(json("1"), "broken 1:0 an object or an array of objects is expected\n");
  EXPECT_EQ(json("\"x\""), "broken 1:0 an object or an array of objects is expected\n");
  EXPECT_EQ(json("\xef\xbb"), "broken 1:0 an object or an array of objects is expected\n");
  EXPECT_EQ(json("["), "broken 1:0 the body ends before its array does\n");
  EXPECT_EQ(json("[{\"a\":1}\n"), "1 -\nbroken 2:1 the body ends before its array does\n");
  EXPECT_EQ(json("[{\"a\":1},"), "1 -\nbroken 1:1 the body ends before its array does\n");
  EXPECT_EQ(json("[{\"a\":1},]"), "1 -\nbroken 1:1 a row is expected behind a comma\n");
  EXPECT_EQ(json("[{\"a\":1},,{}]"), "1 -\nbroken 1:1 a row is expected behind a comma\n");
  EXPECT_EQ(json("[,]"), "broken 1:0 a row is expected\n");
  EXPECT_EQ(json("[{}{}]"), "- -\nbroken 1:1 a comma or ']' is expected behind a row\n");
  EXPECT_EQ(json("[]]"), "broken 1:0 there is something behind the end of the body's value\n");
  EXPECT_EQ(json("{}\n{}"), "- -\nbroken 2:1 there is something behind the end of the body's value\n");
  EXPECT_EQ(json(std::string_view("{}\0", 3)),
            "- -\nbroken 1:1 there is something behind the end of the body's value\n");
  EXPECT_EQ(json("[{\"a\":1},\n{\"a\":\n\"x"), "1 -\nbroken 3:1 /1/a: the body ends in the middle of a row\n");
  EXPECT_EQ(json("{\"a\":1"), "broken 1:0 the body ends in the middle of a row\n");
  // The fault is the error in the string, not the position where the missing quote is noticed.
  EXPECT_EQ(json("[{\"a\":\"x},\n{\"b\":1}]"), "broken 1:0 /0/a: a control character in a string must be escaped\n");
}

TEST(Json, KeepsItsLimits) {
  const RowLimits rows{.row_bytes = 10};
  EXPECT_EQ(json("[{\"a\":1234}, {\"a\":12345},\n{\"a\":\"12345],\"},{\"a\":1}]", ab, rows),
            "1234 -\nbad 1:1 the row is longer than 10 bytes\nbad 2:2 the row is longer than 10 bytes\n1 -\nend");
  EXPECT_EQ(json("{\"a\":12345}", ab, rows), "bad 1:0 the row is longer than 10 bytes\nend of one");
  EXPECT_EQ(json("[{\"a\":\"12345", ab, rows),
            "bad 1:0 the row is longer than 10 bytes\nbroken 1:1 the body ends in the middle of a row\n");
  EXPECT_EQ(json("[xxxxxxxxxxx\\\"],{}]", ab, rows),
            "bad 1:0 the row is longer than 10 bytes\nbroken 1:1 the body ends in the middle of a row\n");

  const RowLimits flat{.depth = 2};
  EXPECT_EQ(json("{\"a\":[]}", ab, flat), "[] -\nend of one");
  EXPECT_EQ(json("{\"a\":[[]]}", ab, flat), "bad 1:0 /a: it is nested deeper than 2 levels\nend of one");
  EXPECT_EQ(json("{\"a\":{\"b\":{}}}", {"a.b"}, flat), "bad 1:0 /a/b: it is nested deeper than 2 levels\nend of one");
  EXPECT_EQ(json("{\"a\":{\"b\":{}},\"c\":{}}", {"a.b.c", "c"}, flat),
            "bad 1:0 /a/b: it is nested deeper than 2 levels\nend of one");
  EXPECT_EQ(json("{\"a\":{\"b\":1},\"c\":{}}", {"a.b", "c"}, flat), "1 {}\nend of one");
  std::string deep(100'000, '[');
  EXPECT_TRUE(said_of(BodyFormat::json, {{"a"}}, {}, {"{\"a\":" + deep}).starts_with("broken 1:0 /a: it is nested"));

  const RowLimits narrow{.columns = 2};
  EXPECT_EQ(json("[{\"a\":1,\"b\":2},{\"a\":1,\"b\":2,\"c\":3}]", ab, narrow, true),
            "1 2\nbad 1:1 /1: an object has more than 2 fields\nend");
}

// For documents with a few changed bytes, the result must be the same as simdjson's.
TEST(Json, JudgesAsSimdjson) {
  static constexpr std::string_view documents[] = {
      "{\"x\":[1,-2.5e+10,0.25,{\"y\":null}],\"\xc3\xa9\":\"\xe2\x82\xac\"}",
      "{\"text\":\"a\\n\\u20ac\\ud83d\\ude00\\\"\\\\\",\"t\":true,\"f\":false,\"n\":null}",
      "{ \"a\" : [ ] , \"b\" : { } ,\t\"c\" : [ [ 0 ] , \"0123456789abcdef0123456789\" ] }"};
  static constexpr std::string_view bytes = "{}[]:,\"\\ \n0123456789.eE+-tfnaud8\x01\x7f\x80\xc3\xe2\xf0\xff/";
  std::mt19937 random(20261122);
  simdjson::dom::parser parser;
  const Shape shape{{""}};
  std::size_t good = 0;
  for (int round = 0; round < 60'000; ++round) {
    std::string text(documents[random() % std::size(documents)]);
    for (std::size_t changes = random() % 3; changes != 0; --changes) {
      const std::size_t at = random() % text.size();
      const char byte = bytes[random() % bytes.size()];
      const auto kind = random() % 3;
      if (kind == 0) text[at] = byte;
      if (kind == 1) text.insert(at, 1, byte);
      if (kind == 2) text.erase(at, 1);
    }
    if (text.find("\\u0000") != std::string::npos) continue;  // valid JSON, but not a text for a database
    simdjson::dom::element element;
    const auto error = parser.parse(text).get(element);
    if (error == simdjson::NUMBER_ERROR) continue;  // also for a number that fits no double or integer
    const bool expected = error == simdjson::SUCCESS && element.is_object();
    const std::string result = said_of(BodyFormat::json, shape, {}, {text});
    ASSERT_EQ(result.ends_with("end of one") && !result.starts_with("bad"), expected)
        << text << "\n"
        << simdjson::error_message(error) << "\n"
        << result;
    good += expected ? 1 : 0;
  }
  EXPECT_GT(good, 20'000u);
}

TEST(Ndjson, ReadsLines) {
  EXPECT_EQ(ndjson("{\"a\":1}\n{\"b\":\"\\n\"}\r\n\n  \t\r\n {\"a\" : 2 } \n{\"a\":3}"),
            "1 -\n- \"\n\"\n2 -\n3 -\nend");
  EXPECT_EQ(ndjson(""), "end");
  EXPECT_EQ(ndjson("\n\n"), "end");
  EXPECT_EQ(ndjson("\xef\xbb\xbf{\"a\":1}\n"), "1 -\nend");
}

TEST(Ndjson, RefusesBadLinesAndGoesOn) {
  EXPECT_EQ(ndjson("1\n{\"a\":\n1}\n[{}]\n{} {}\n\n{\"a\":1,}\n{\"x\":1}\n{\"a\":2}"),
            "bad 1:0 an object is expected\nbad 2:1 /a: the text ends in the middle of a row\n"
            "bad 3:2 an object is expected\nbad 4:3 an object is expected\n"
            "bad 5:4 there is something behind the row's object\nbad 7:5 a name in quotes is expected\n"
            "bad 8:6 /x: there is no field \"x\"\n2 -\nend");
  EXPECT_EQ(ndjson(std::string_view("{\"a\":1}\0\n{\"a\":\0}\n{}", 19)),
            "bad 1:0 there is something behind the row's object\nbad 2:1 /a: a value is expected\n- -\nend");
  EXPECT_EQ(ndjson("{\"a\":\"x\n{\"a\":1}"), "bad 1:0 /a: the text ends in the middle of a row\n1 -\nend");
}

TEST(Ndjson, KeepsItsLimits) {
  const RowLimits rows{.row_bytes = 10};
  EXPECT_EQ(ndjson("{\"a\":1234}\n{\"a\":12345}\n{\"a\":1}\n{\"a\":123456", ab, rows),
            "1234 -\nbad 2:1 the row is longer than 10 bytes\n1 -\nbad 4:3 the row is longer than 10 bytes\nend");
}

}  // namespace
}  // namespace sluice::api
