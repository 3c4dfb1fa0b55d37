#include "api/source.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "api/password.h"
#include "core/reactor.h"
#include "core/run_to_end.h"
#include "http/request_id.h"
#include "sql/postgres/types.h"

namespace sluice::api {
namespace {

class SourceTest : public ::testing::Test {
 public:
  static ParamOptions from(const char* where) {
    ParamOptions options;
    options.from = Located<std::string>(where);
    return options;
  }
  Source source(const std::string& name, const ParamOptions& options, bool in_body = true,
                std::optional<sql::ParameterType> declared = {}) const {
    const std::vector<Named<ParamOptions>> params{{{name}, options}};
    return source_of({name, declared}, params, *http::Pattern::parse("/films/{slug}/{id:int}"), in_body);
  }
  // Returns the value, "NULL", or what is wrong with it.
  std::string bound(const Source& one, std::vector<Value> row = {}) {
    http::Exchange exchange;
    http::Request& request = exchange.request;
    request.fields = fields;
    request.query = query;
    request.path_values[0] = "heat";
    request.path_values[1] = "7";
    if (!id.empty()) exchange.attributes.set(http::RequestId{id});
    arguments.clear();
    if (auto done = binder.bind({&one, 1}, exchange, row, arguments); !done) return "! " + done.error().reason;
    return arguments[0].text ? std::string(*arguments[0].text) : "NULL";
  }

  std::vector<http::Field> fields;
  std::string query;
  std::string id;  // of the request
  std::vector<sql::Argument> arguments;
  Binder binder;
};

TEST(Credential, OfAnySourceByItsName) {
  ::sluice::api::Source claim;
  claim.name = "x";
  claim.from = From::claim;
  claim.key = "password";
  EXPECT_EQ(credential_of({&claim, 1}), "password");
  claim.key = "sub";
  EXPECT_EQ(credential_of({&claim, 1}), "");
  claim.from = From::body;
  claim.key = "account.name";
  EXPECT_EQ(credential_of({&claim, 1}), "");
  claim.key = "account.password";
  EXPECT_EQ(credential_of({&claim, 1}), "account.password");
  claim.key = "";
  EXPECT_EQ(credential_of({&claim, 1}), "body") << "all of it, whatever that holds";
}

TEST_F(SourceTest, NamesAreParsed) {
  EXPECT_EQ(parse_source("body")->key, "");
  EXPECT_EQ(parse_source("body.a.b")->key, "a.b");
  EXPECT_EQ(parse_source("claim.a.b")->from, From::claim);
  for (const char* wrong : {"", "boddy.a", "path", "path.", "query", "header.", "body.", "body..a", "body.a.",
                            "body.a..b", ".a", "request", "request.ids"}) {
    EXPECT_FALSE(parse_source(wrong)) << wrong;
    EXPECT_NE(check_source(wrong), "") << wrong;
  }
  for (const char* right :
       {"path.a", "query.a", "header.x-a", "cookie.a", "claim.sub", "env.HOME", "body", "body.a", "request.id"}) {
    EXPECT_EQ(check_source(right), "") << right;
  }
}

TEST_F(SourceTest, TheRequestsId) {
  ParamOptions options = from("request.id");
  EXPECT_EQ(bound(source("by", options)), "NULL");
  options.required = true;
  EXPECT_EQ(bound(source("by", options)), "! is missing");
  id = "a-1";
  query = "id=other&by=other";
  const auto one = source("by", options);
  EXPECT_EQ(bound(one), "a-1");
  EXPECT_EQ(refuse_value({&one, "does not fit its type"}).status, 400);
}

TEST_F(SourceTest, IntegersHoweverTheyAreWritten) {
  const std::pair<const char*, const char*> written[] = {{"1.0", "1"},
                                                         {"1e3", "1000"},
                                                         {"-12.50E1", "-125"},
                                                         {"0.0", "0"},
                                                         {"-0e5", "0"},
                                                         {"0.001e+3", "1"},
                                                         {"100e-2", "1"},
                                                         {"9223372036854775807.0", "9223372036854775807"},
                                                         {"-9.223372036854775808e18", "-9223372036854775808"}};
  for (const auto& [number, integer] : written) EXPECT_EQ(integer_of(number), integer) << number;
  for (const char* none : {"1", "-7", "1.5", "1e-1", "12e-3", "1e19", "9223372036854775808.0", "1e400",
                           "1e99999999999999999999", "1e-99999999999999999999", "1.00000000000000000000000001"}) {
    EXPECT_FALSE(integer_of(none)) << none;
  }
  const Source declared = source("n", {}, true, sql::ParameterType::integer);
  EXPECT_EQ(bound(declared, {{Value::Kind::number, "2e1"}}), "20");
  EXPECT_EQ(bound(declared, {{Value::Kind::number, "2.5"}}), "! must be an integer");
  EXPECT_EQ(bound(declared, {{Value::Kind::string, "2e1"}}), "! must be an integer")
      << "which a string is only as digits";
  Source known = source("n", {});
  EXPECT_EQ(bound(known, {{Value::Kind::number, "1.0"}}), "1.0");
  known.integral = true;
  EXPECT_EQ(bound(known, {{Value::Kind::number, "1.0"}}), "1");
  EXPECT_EQ(arguments[0].type, sql::ParameterType::integer);
  EXPECT_EQ(bound(known, {{Value::Kind::number, "1.5"}}), "1.5") << "the database says what it is";
  Source path = source("slug", {});
  path.integral = true;
  EXPECT_EQ(bound(path), "! must be an integer");
}

TEST_F(SourceTest, IntegersHaveOneSpelling) {
  const Source n = source("n", {}, false, sql::ParameterType::integer);
  const std::pair<const char*, const char*> written[] = {{"0", "0"},     {"-0", "0"}, {"00", "0"},  {"007", "7"},
                                                         {"-007", "-7"}, {"7", "7"},  {"-7", "-7"}, {"", "NULL"}};
  for (const auto& [text, value] : written) {
    query = std::string("n=") + text;
    EXPECT_EQ(bound(n), value) << text;
  }
  for (const char* none : {"%2B7", "+7", "7+", "0x7", "-", "7.0", "--7"}) {
    query = std::string("n=") + none;
    EXPECT_EQ(bound(n), "! must be an integer") << none;
  }
}

TEST_F(SourceTest, ListsAreAllValuesOfAParameter) {
  const auto list = [&](sql::ParameterType type, const char* text, bool array) {
    query = text;
    Source one = source("n", {}, false, type);
    one.is_array = array;
    return bound(one);
  };
  using enum sql::ParameterType;
  EXPECT_EQ(list(integers, "n=1&n=&n=-007&m=3", true), "{1,-7}");
  EXPECT_EQ(list(integers, "n=1&%6e=7", false), "[1,7]");
  EXPECT_EQ(list(reals, "n=.50&n=-1.&n=1e3&n=0.0", false), "[5e-1,-1e0,1e3,0e0]");
  EXPECT_EQ(list(booleans, "n=t&n=0&n=false", true), "{true,false,false}");
  EXPECT_EQ(list(texts, "n=a%22b%5C&n=&n=c,d", true), R"({"a\"b\\","","c,d"})");
  EXPECT_EQ(list(texts, "n=a%22b%5C&n=&n=c,d", false), R"(["a\"b\\","","c,d"])");
  EXPECT_EQ(list(integers, "n=&m=1", true), "NULL");
  EXPECT_EQ(list(integers, "n=1&n=x", true), "! must be an integer, each time");
  EXPECT_EQ(list(texts, "n=1&n=%zz", true), "! has a broken percent escape");
  EXPECT_EQ(list(texts, "n=1&n=%00", true), "! holds a NUL character");
  ParamOptions required;
  required.required = true;
  query = "n=";
  EXPECT_EQ(bound(source("n", required, false, integers)), "! is missing");
}

TEST_F(SourceTest, OnlyAllowedValues) {
  using Kind = Value::Kind;
  ParamOptions options;
  for (const char* const value : {"1", "7"}) options.values.emplace_back(Scalar{value});
  const Source text = source("n", options);
  EXPECT_EQ(bound(text, {{Kind::string, "7"}}), "7");
  EXPECT_EQ(bound(text, {{Kind::string, "07"}}), "! must be one of: 1, 7");
  EXPECT_EQ(bound(text, {{Kind::string, ""}}), "! must be one of: 1, 7");
  EXPECT_EQ(bound(text, {{Kind::null, {}}}), "NULL");
  EXPECT_EQ(bound(text), "NULL");
  const Source integer = source("n", options, true, sql::ParameterType::integer);
  EXPECT_EQ(bound(integer, {{Kind::number, "7.0"}}), "7");
  EXPECT_EQ(bound(integer, {{Kind::number, "8"}}), "! must be one of: 1, 7");
  query = "n=01&n=&n=7";
  Source list = source("n", options, false, sql::ParameterType::integers);
  EXPECT_EQ(bound(list), "[1,7]");
  query = "n=1&n=2";
  EXPECT_EQ(bound(list), "! must be one of: 1, 7");
  query = "m=2";
  EXPECT_EQ(bound(list), "NULL");

  ParamOptions bounds;
  bounds.min = Located<double>(8);
  EXPECT_EQ(bound(source("id", bounds)), "! must be at least 8") << "of the path";
  Source json = source("doc", bounds);
  json.column = sql::ColumnKind::server_json;
  json.takes_json_null = true;
  EXPECT_EQ(bound(json, {{Kind::null, {}, "null"}}), "null");
}

TEST_F(SourceTest, AHeaderThatIsRepeatedIsRefused) {
  const Source header = source("who", from("header.X-Who"));
  fields = {{"X-Who", "ada"}, {"Accept", "*/*"}, {"x-who", "bob"}};
  EXPECT_EQ(bound(header), "! comes more than once");
  fields.pop_back();
  EXPECT_EQ(bound(header), "ada");
  fields = {{"X-Who", ""}, {"x-who", ""}};
  EXPECT_EQ(bound(header), "! comes more than once");
  EXPECT_TRUE(refuse_value({&header, "comes more than once"}).status == 400);
}

TEST_F(SourceTest, AnEmptyValueOfAnotherTypeThanTextIsMissing) {
  query = "n=";
  fields = {{"X-N", ""}, {"Cookie", "n="}};
  for (const char* where : {"query.n", "header.x-n", "cookie.n"}) {
    EXPECT_EQ(bound(source("a", from(where), true, sql::ParameterType::integer)), "NULL") << where;
    EXPECT_EQ(bound(source("a", from(where), true, sql::ParameterType::text)), "") << where;
    Source one = source("a", from(where));
    EXPECT_EQ(bound(one), "") << where;
    one.default_text = "5";
    one.column = sql::ColumnKind::integer;
    EXPECT_EQ(bound(one), "5") << where;
    one.default_text.reset();
    one.required = true;
    EXPECT_EQ(bound(one), "! is missing") << where;
  }
}

TEST_F(SourceTest, FilesAndWhatIsKnownOfThem) {
  EXPECT_EQ(parse_source("upload")->key, "");
  EXPECT_EQ(parse_source("upload.picture")->field, UploadField::hash);
  EXPECT_EQ(parse_source("upload.picture.size")->field, UploadField::size);
  EXPECT_EQ(parse_source("upload.picture.name")->key, "picture");
  for (const char* wrong : {"upload.", "upload..size", "upload.a.", "upload.a.hash", "upload.a.size.b"}) {
    EXPECT_FALSE(parse_source(wrong)) << wrong;
  }
  const std::vector<Upload> uploads{{.hash = "abc", .size = "3", .type = "a/b", .name = {}}, {}};
  binder.take(uploads);
  Source one = source("file", from("upload.picture"));
  EXPECT_EQ(bound(one), "abc");
  one.upload_field = UploadField::size;
  EXPECT_EQ(bound(one), "3");
  EXPECT_EQ(arguments[0].type, sql::ParameterType::integer);
  one.upload_field = UploadField::name;
  EXPECT_EQ(bound(one), "NULL");
  one.asks_presence = true;
  EXPECT_EQ(bound(one), "true") << "the file is there, if without a name";
  one.upload_index = 1;
  EXPECT_EQ(bound(one), "false");
  one.asks_presence = false;
  one.required = true;
  EXPECT_EQ(bound(one), "! is missing");
  EXPECT_TRUE(refuse_value({&one, "is missing"}).status == 400);
}

TEST_F(SourceTest, WithoutAWordThePathComesFirstAndThenTheBodyOrTheQuery) {
  EXPECT_EQ(source("slug", {}).from, From::path);
  EXPECT_EQ(source("id", {}).path_index, 1);
  EXPECT_EQ(source("name", {}, true).from, From::body);
  EXPECT_EQ(source("name", {}, false).from, From::query);
  EXPECT_EQ(bound(source("slug", {})), "heat");
}

TEST_F(SourceTest, HeadersAndCookies) {
  fields = {{"X-Agent", " curl "}, {"Cookie", "a=1; session=\"x y\"; b"}, {"Cookie", "sessions=second; late=z"}};
  ParamOptions agent = from("header.x-agent");
  EXPECT_EQ(bound(source("a", agent)), " curl ");
  agent.trim = true;
  EXPECT_EQ(bound(source("a", agent)), "curl");
  fields[0].value = "  ";
  EXPECT_EQ(bound(source("a", agent)), "");
  agent.required = true;
  EXPECT_EQ(bound(source("a", agent)), "! is missing");
  EXPECT_EQ(bound(source("a", from("header.x-other"))), "NULL");
  EXPECT_EQ(bound(source("a", from("cookie.session"))), "x y");
  EXPECT_EQ(bound(source("a", from("cookie.late"))), "z");
  EXPECT_EQ(bound(source("a", from("cookie.b"))), "NULL");
  EXPECT_EQ(bound(source("a", from("cookie.sess"))), "NULL");
}

TEST_F(SourceTest, ACookieThatComesTwiceIsRefused) {
  for (const auto& [first, second] : {std::pair{"s=1; t=2; s=3", ""}, {"s=1", "s=1"}, {"s=\"1\"; s=", "t=2"}}) {
    fields = {{"Cookie", first}, {"cookie", second}};
    EXPECT_EQ(bound(source("a", from("cookie.s"))), "! comes more than once") << first;
    EXPECT_EQ(bound(source("a", from("cookie.t"))), first == std::string_view("s=1") ? "NULL" : "2") << first;
  }
}

TEST_F(SourceTest, WhatIsNotUtf8IsRefused) {
  fields = {{"X-H", "a\xff"}, {"Cookie", "s=\xc0\x80"}};
  query = "q=%ed%a0%80&i=%ff&t=%c3%a9";
  for (const char* one : {"header.x-h", "cookie.s", "query.q"}) {
    EXPECT_EQ(bound(source("a", from(one))), "! is not UTF-8") << one;
  }
  EXPECT_EQ(bound(source("a", from("query.t"))), "\xc3\xa9");
}

TEST_F(SourceTest, TheEnvironmentIsWhatTheOptionsSay) {
  ParamOptions known = from("env.PATH");
  known.environment = "first";
  EXPECT_EQ(bound(source("a", known)), "first");
  EXPECT_EQ(bound(source("a", from("env.PATH"))), "NULL");
  ParamOptions needed = from("env.PATH");
  needed.required = true;
  EXPECT_EQ(bound(source("a", needed)), "! is missing");
}

TEST_F(SourceTest, TheBodysValuesAreCheckedByTheirKind) {
  using Kind = Value::Kind;
  Source one = source("n", {}, true, sql::ParameterType::integer);
  EXPECT_EQ(bound(one, {{Kind::number, "12"}}), "12");
  EXPECT_EQ(bound(one, {{Kind::string, "12"}}), "12");
  EXPECT_EQ(bound(one, {{Kind::null, {}}}), "NULL");
  EXPECT_EQ(bound(one), "NULL");
  for (const Value wrong : {Value{Kind::number, "1.5"}, Value{Kind::boolean, "true"}, Value{Kind::json, "[1]"},
                            Value{Kind::string, "", "\"\""}}) {
    EXPECT_EQ(bound(one, {wrong}), "! must be an integer") << wrong.text;
  }
  one.default_text = "5";
  EXPECT_EQ(bound(one), "5");
  EXPECT_EQ(bound(one, {{Kind::null, {}}}), "NULL") << "null is said; the default is for what is not";
  one.required = true;
  EXPECT_EQ(bound(one, {{Kind::null, {}}}), "! must not be null");

  // Without a declared type, the value determines the type of its binding.
  Source any = source("v", {});
  const std::vector<std::pair<Value, sql::ParameterType>> kinds{{{Kind::number, "12"}, sql::ParameterType::integer},
                                                                {{Kind::number, "1.5"}, sql::ParameterType::real},
                                                                {{Kind::boolean, "true"}, sql::ParameterType::boolean},
                                                                {{Kind::string, "12"}, sql::ParameterType::text},
                                                                {{Kind::json, "{}"}, sql::ParameterType::text}};
  for (const auto& [value, type] : kinds) {
    EXPECT_EQ(bound(any, {value}), value.text);
    EXPECT_EQ(arguments[0].type, type) << value.text;
  }
  EXPECT_EQ(bound(any, {{Kind::number, "99999999999999999999"}}),
            "! must be a number of no more digits than 64 bits hold");
  any.asks_presence = true;
  EXPECT_EQ(bound(any, {{Kind::null, {}}}), "true");
  EXPECT_EQ(bound(any), "false");
}

TEST_F(SourceTest, ValuesAreConvertedForTheirColumn) {
  using Kind = Value::Kind;
  const auto column = [](sql::ColumnKind kind, bool not_null = false) {
    sql::TableColumn made;
    made.kind = kind;
    made.not_null = not_null;
    return made;
  };
  Source one = source("v", {});
  take_column(column(sql::ColumnKind::text), one);
  EXPECT_EQ(bound(one, {{Kind::number, "99999999999999999999"}}), "99999999999999999999");
  take_column(column(sql::ColumnKind::boolean), one);
  one.trim = true;
  EXPECT_EQ(bound(one, {{Kind::string, " t "}}), "true");
  EXPECT_EQ(arguments[0].type, sql::ParameterType::boolean);
  one.default_text = "f";
  EXPECT_EQ(bound(one), "false");

  // An empty field of CSV or a form.
  for (const auto kind :
       {sql::ColumnKind::boolean, sql::ColumnKind::json, sql::ColumnKind::value, sql::ColumnKind::server_value}) {
    take_column(column(kind), one);
    EXPECT_EQ(bound(one, {{Kind::string, " "}}), "NULL") << "and not the default, as it is null";
  }
  take_column(column(sql::ColumnKind::integer), one);
  EXPECT_EQ(bound(one, {{Kind::string, "", "\"\""}}), "! must be an integer");
  for (const auto kind :
       {sql::ColumnKind::by_server, sql::ColumnKind::text, sql::ColumnKind::any, sql::ColumnKind::other}) {
    take_column(column(kind), one);
    EXPECT_EQ(bound(one, {{Kind::string, " "}}), "");
  }

  // JSON's null is a value if the column is NOT NULL and the body's format is JSON. In CSV it is an empty field.
  Source json = source("v", {});
  take_column(column(sql::ColumnKind::server_json), json);
  EXPECT_EQ(bound(json, {{Kind::null, {}, "null"}}), "NULL");
  EXPECT_EQ(bound(json, {{Kind::string, "5", "\"5\""}}), "\"5\"");
  take_column(column(sql::ColumnKind::server_json, true), json);
  EXPECT_EQ(bound(json, {{Kind::null, {}, "null"}}), "null");
  EXPECT_EQ(bound(json, {{Kind::null, {}}}), "NULL");

  // The declared type is an additional check.
  Source checked = source("v", {}, true, sql::ParameterType::real);
  take_column(column(sql::ColumnKind::text), checked);
  EXPECT_EQ(bound(checked, {{Kind::number, "1.50"}}), "1.50");
  EXPECT_EQ(arguments[0].type, sql::ParameterType::text);
  EXPECT_EQ(bound(checked, {{Kind::string, "x"}}), "! must be a number");
  const Source bytes = source("v", {}, true, sql::ParameterType::bytes);
  EXPECT_EQ(bound(bytes, {{Kind::string, "\\x41"}}), "\\x41");
  EXPECT_EQ(arguments[0].type, sql::ParameterType::bytes);
  EXPECT_EQ(bound(bytes, {{Kind::string, "41"}}), "! must be \\x and pairs of hexadecimal digits");
  EXPECT_EQ(bound(bytes, {{Kind::number, "41"}}), "! must be \\x and pairs of hexadecimal digits");
}

TEST_F(SourceTest, ADeclaredTypeIsNoWayAroundTheColumn) {
  using Kind = Value::Kind;
  using sql::ColumnKind;
  using sql::ParameterType;
  struct Case {
    ColumnKind column;
    ParameterType declared;
    Value value;
    const char* expected;
    ParameterType type = ParameterType::text;
  };
  constexpr const char* digits = "! must be a number of no more digits than 64 bits hold";
  const Case cases[] = {
      {ColumnKind::integer,
       ParameterType::real,
       {Kind::number, "9007199254740993"},
       "9007199254740993",
       ParameterType::integer},
      {ColumnKind::numeric, ParameterType::real, {Kind::number, "12345678901234567890.12"}, digits},
      {ColumnKind::numeric, ParameterType::text, {Kind::string, "12345678901234567890123"}, digits},
      {ColumnKind::other, ParameterType::text, {Kind::string, "12345678901234567890123"}, digits},
      {ColumnKind::numeric, ParameterType::text, {Kind::string, "many"}, "many"},
      {ColumnKind::boolean, ParameterType::text, {Kind::string, "t"}, "true", ParameterType::boolean},
      {ColumnKind::boolean, ParameterType::boolean, {Kind::string, "1"}, "1", ParameterType::integer},
      {ColumnKind::bytes, ParameterType::text, {Kind::string, "\\x00"}, "\\x00", ParameterType::bytes},
      {ColumnKind::json, ParameterType::text, {Kind::string, "5", "\"5\""}, "\"5\""},
      {ColumnKind::server_json, ParameterType::text, {Kind::string, "5", "\"5\""}, "\"5\""},
      {ColumnKind::text, ParameterType::real, {Kind::number, "1.50"}, "1.50"},
      // The column's kind does not change these values.
      {ColumnKind::integer, ParameterType::boolean, {Kind::boolean, "true"}, "true", ParameterType::boolean},
      {ColumnKind::other, ParameterType::boolean, {Kind::string, "t"}, "t", ParameterType::boolean},
      {ColumnKind::other, ParameterType::bytes, {Kind::string, "\\x00"}, "\\x00", ParameterType::bytes},
      {ColumnKind::any, ParameterType::integer, {Kind::string, "007"}, "7", ParameterType::integer},
      {ColumnKind::any, ParameterType::text, {Kind::number, "1.50"}, "1.50"},
      {ColumnKind::by_server, ParameterType::real, {Kind::number, "1.50"}, "1.50", ParameterType::real},
  };
  for (const Case& one : cases) {
    Source declared = source("v", {}, true, one.declared);
    declared.column = one.column;
    EXPECT_EQ(bound(declared, {one.value}), one.expected) << one.value.text;
    if (one.expected[0] != '!') EXPECT_EQ(arguments[0].type, one.type) << one.value.text;
  }
}

TEST_F(SourceTest, ADefaultBesideAComparisonMayBeAnyText) {
  using Use = sql::Compared::Use;
  Source one = source("n", {}, false);
  one.column = sql::ColumnKind::integer;
  one.default_text = "";
  for (const Use use : {Use::chosen, Use::stored, Use::equal}) {
    one.use = use;
    EXPECT_EQ(bound(one, {}), "! must be an integer");
  }
  one.use = Use::compared;
  EXPECT_EQ(bound(one, {}), "");
  EXPECT_EQ(arguments[0].type, sql::ParameterType::text);
  one.default_text = "12345678901234567890123";
  EXPECT_EQ(bound(one, {}), "12345678901234567890123");
  one.default_text = "";
  query = "n=";
  EXPECT_EQ(bound(one, {}), "") << "an empty value is a missing one";
  query = "n=many";
  EXPECT_EQ(bound(one, {}), "! must be a number");
  query = "n=1.5";
  EXPECT_EQ(bound(one, {}), "1.5") << "`n >= 1.5` means something for integers";
  one.use = Use::equal;
  EXPECT_EQ(bound(one, {}), "! must be an integer");
}

TEST_F(SourceTest, TheQueryIsDecodedAndNoNulGoesThrough) {
  const Source one = source("q", {}, false);
  query = "q=a+b%2B";
  EXPECT_EQ(bound(one), "a b+");
  query = "q=a%00b";
  EXPECT_EQ(bound(one), "! holds a NUL character");
  query = "q=%zz";
  EXPECT_EQ(bound(one), "! has a broken percent escape");
}

TEST_F(SourceTest, NulOfJsonGoesThroughToAColumnOfJson) {
  const Value nul{Value::Kind::string, {"\0", 1}, R"("\u0000")"};
  Source one = source("v", {});
  for (const auto kind : {sql::ColumnKind::json, sql::ColumnKind::server_json}) {
    one.column = kind;
    EXPECT_EQ(bound(one, {nul}), nul.json);
  }
  for (const auto kind : {sql::ColumnKind::text, sql::ColumnKind::by_server, sql::ColumnKind::any}) {
    one.column = kind;
    EXPECT_EQ(bound(one, {nul}), "! holds a NUL character");
  }
  one.nested = sql::postgres::builtin_type(1009);  // text[]
  EXPECT_EQ(bound(one, {{Value::Kind::json, R"(["\u0000"])"}}), "! holds a NUL character");
}

TEST_F(SourceTest, APasswordIsNeverBoundAsItIs) {
  class Hasher final : public PasswordHasher {
    core::Task<std::optional<std::string>> hash(std::string_view, std::string password) override {
      co_return "#" + password;
    }
  };
  ParamOptions options;
  options.hash = PasswordHash::argon2id;
  const Source one = source("secret", options);
  const Value good{Value::Kind::string, "gr8-pass"};
  EXPECT_EQ(bound(one, {good}), "NULL") << "nothing can hash it";
  Passwords passwords;
  binder.take(passwords);
  EXPECT_EQ(bound(one, {good}), "NULL");
  Hasher hasher;
  const auto reactor = core::make_epoll_reactor();
  EXPECT_TRUE(core::run_to_end(*reactor, nullptr, passwords.hash_all(hasher, {})));
  EXPECT_EQ(bound(one, {good}), "#gr8-pass");

  EXPECT_EQ(bound(one, {{Value::Kind::string, "short"}}), "! must have at least 8 characters");
  EXPECT_EQ(bound(one, {{Value::Kind::number, "1234567890.5"}}), "! must be text");
  EXPECT_EQ(bound(one, {{Value::Kind::boolean, "true"}}), "! must be text");
  EXPECT_EQ(bound(one, {{Value::Kind::json, R"(["gr8-pass"])"}}), "! must be text");
  EXPECT_EQ(bound(one, {{Value::Kind::null, {}}}), "NULL");
  options.required = true;
  const Source required = source("secret", options);
  EXPECT_EQ(bound(required, {{Value::Kind::null, {}}}), "! must not be null");
  EXPECT_EQ(bound(required, {{Value::Kind::missing, {}}}), "! is missing");
  EXPECT_EQ(bound(required, {{Value::Kind::string, {}}}), "! must have at least 8 characters");
}

TEST(Credential, APasswordWhateverItsName) {
  ParamOptions options;
  options.hash = PasswordHash::argon2id;
  const std::vector<Named<ParamOptions>> params{{{"word"}, options}};
  const Source source = source_of({"word", {}}, params, *http::Pattern::parse("/"), true);
  EXPECT_EQ(credential_of({&source, 1}), "word");
}

TEST_F(SourceTest, AWrongClaimIsForbiddenAndAnotherValueABadRequest) {
  const Source claim = source("a", from("claim.tenant"));
  EXPECT_EQ(refuse_value({&claim, "is missing"}).status, 403);
  const Source header = source("a", from("header.x-a"));
  EXPECT_EQ(refuse_value({&header, "is missing"}).status, 400);
}

}  // namespace
}  // namespace sluice::api
