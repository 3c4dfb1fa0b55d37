#include "app/config/values.h"

#include <tuple>

#include <gtest/gtest.h>

#include "app/config/load.h"
#include "sql/column_kind.h"

namespace sluice::app::config {
namespace {

constexpr std::uint32_t boolean = 16, bigint = 20, text = 25, real = 701, date = 1082, timestamp_tz = 1184, uuid = 2950;

class Values : public testing::Test {
 protected:
  // The endpoint's path is "/films/{id:int}". The first of `lines` is line 4.
  void load(const std::string& lines) {
    auto config = parse(Source("a.toml", "[[endpoint]]\npath = \"/films/{id:int}\"\nget = \"SELECT 1\"\n" + lines +
                                             "\n[database.main]\nurl = \"sqlite:a.db\"\n"),
                        [this](std::string_view) { return variable_; });
    ASSERT_TRUE(config) << config.error().text();
    config_ = std::move(*config);
  }
  // The errors about the parameters of GET if PostgreSQL reports these types for them.
  std::string complaints(std::vector<std::pair<std::string, std::uint32_t>> parameters) {
    const api::EndpointOptions& endpoint = config_.options.endpoints[0];
    const auto pattern = *http::Pattern::parse(endpoint.path.value);
    const auto declared = api::declared_parameters(endpoint, pattern);
    std::vector<api::Source> sources;
    for (const auto& [name, oid] : parameters) {
      sql::Parameter parameter{name, std::nullopt};
      for (const auto& one : declared) {
        if (one.name == name) parameter.declared = one.declared;
      }
      sources.push_back(api::source_of(parameter, endpoint.params, pattern, false));
    }
    std::vector<BoundValue> values;
    for (std::size_t i = 0; i < sources.size(); ++i) values.push_back({&sources[i], parameters[i].second});
    std::vector<Diagnostic> errors;
    check_values(endpoint, nullptr, nullptr, sql::Dialect::postgres, values, config_.source, errors);
    return text_of(errors);
  }
  static std::string text_of(const std::vector<Diagnostic>& errors) {
    std::string all;
    for (const Diagnostic& one : errors) {
      all += std::to_string(one.position.line) + ":" + std::to_string(one.position.column) + " " + one.message + "\n";
    }
    return all;
  }

  Config config_;
  std::optional<std::string> variable_;  // the value of every environment variable
};

TEST_F(Values, ATypeThatTheDatabaseDoesNotTake) {
  load("params.a = \"text\"\nparams.b = { type = \"bool\" }");
  EXPECT_EQ(complaints({{"a", bigint}}),
            "4:12 endpoint /films/{id:int}: \"a\" is declared as text, and the database takes it for an integer\n");
  EXPECT_EQ(complaints({{"b", real}}),
            "5:21 endpoint /films/{id:int}: \"b\" is declared as bool, and the database takes it for a number\n");
  EXPECT_EQ(complaints({{"b", date}, {"b", date}}),
            "5:21 endpoint /films/{id:int}: \"b\" is declared as bool, and the database takes it for a date\n")
      << "once for the same parameter";
  EXPECT_EQ(complaints({{"id", uuid}}),
            "2:16 endpoint /films/{id:int}: \"id\" is declared as int, and the database takes it for a UUID\n");
  EXPECT_NE(complaints({{"b", timestamp_tz}}), "");
}

TEST_F(Values, ListsAreOfTheQueryStringAndForArrays) {
  load("params.a = \"int[]\"\nparams.h = { from = \"header.h\", type = \"text[]\" }");
  EXPECT_EQ(complaints({{"a", 1016}, {"a", 1007}, {"a", 0}}), "");
  EXPECT_EQ(complaints({{"a", bigint}}),
            "4:12 endpoint /films/{id:int}: \"a\" is declared as a list, and the database takes it for an integer\n");
  EXPECT_EQ(complaints({{"a", text}}),
            "4:12 endpoint /films/{id:int}: \"a\" is declared as a list, and the database takes it for text\n");
  EXPECT_EQ(complaints({{"h", 1009}}),
            "5:40 endpoint /films/{id:int}: \"h\" is a list, which only comes from the query string\n");
}

TEST_F(Values, TypesThatGoTogether) {
  load("params.a = \"text\"\nparams.b = \"bool\"\nparams.i = \"int\"\nparams.r = \"real\"");
  EXPECT_EQ(complaints({{"a", text}, {"a", uuid}, {"a", date}, {"a", 3802}, {"a", 0}}), "");
  EXPECT_EQ(complaints({{"b", boolean}, {"b", text}, {"b", 0}}), "");
  EXPECT_EQ(complaints({{"i", bigint}, {"i", real}, {"i", text}, {"id", 23}, {"r", real}, {"r", 1700}}), "");
  EXPECT_EQ(complaints({{"unknown", bigint}}), "");
  EXPECT_NE(complaints({{"r", bigint}}), "");
  EXPECT_NE(complaints({{"r", boolean}}), "");
  EXPECT_EQ(complaints({{"a", boolean}, {"a", real}, {"a", 1700}, {"i", boolean}, {"i", date}, {"id", timestamp_tz}}),
            "")
      << "PostgreSQL reads the text";
}

TEST_F(Values, SqlitesColumns) {
  load(
      "params.a = \"text\"\nparams.b = \"bool\"\nparams.i = \"int\"\nparams.d = { default = \"abc\" }\n"
      "params.r = \"real\"\nparams.e = { default = \"\" }\nparams.h = { default = \" -7.0 \" }\nparams.f = { default = "
      "1.5 }\n"
      "params.t = { default = true }");
  const auto said = [&](const std::string& name, const std::string& type, bool row_id = false) {
    const api::EndpointOptions& endpoint = config_.options.endpoints[0];
    const auto pattern = *http::Pattern::parse(endpoint.path.value);
    sql::Parameter parameter{name, std::nullopt};
    for (const auto& one : api::declared_parameters(endpoint, pattern)) {
      if (one.name == name) parameter.declared = one.declared;
    }
    api::Source source = api::source_of(parameter, endpoint.params, pattern, false);
    source.column = sql::sqlite_column_kind(type);
    const std::vector<BoundValue> values{{.source = &source, .oid = 0, .type = type, .row_id = row_id}};
    std::vector<Diagnostic> errors;
    check_values(endpoint, nullptr, nullptr, sql::Dialect::sqlite, values, config_.source, errors);
    return text_of(errors);
  };
  EXPECT_EQ(said("a", "INTEGER"),
            "4:12 endpoint /films/{id:int}: \"a\" is declared as text, and the database takes it for an integer\n");
  EXPECT_TRUE(said("b", "int", true).contains("takes it for an integer")) << "no key is a flag";
  EXPECT_EQ(said("d", "INT"), "7:24 endpoint /films/{id:int}: this default of \"d\" must be an integer\n");
  for (const auto& [name, type, wrong] : {std::tuple{"e", "INT", "must be an integer"},
                                          {"f", "INTEGER", "must be an integer"},
                                          {"d", "REAL", "must be a number"},
                                          {"d", "DECIMAL(10,2)", "must be a number"},
                                          {"d", "BOOLEAN", "must be true or false"},
                                          {"d", "JSON", "must be JSON"},
                                          {"f", "boolean", "must be true or false"}}) {
    EXPECT_TRUE(said(name, type).ends_with(std::string(wrong) + "\n")) << name << " " << type;
  }
  for (const auto& [name, type] : {std::pair{"b", "INTEGER"},
                                   {"b", "boolean"},
                                   {"i", "BOOLEAN"},
                                   {"i", "REAL"},
                                   {"i", "date"},
                                   {"b", "uuid"},
                                   {"a", ""},
                                   {"a", "ANY"},
                                   {"d", "text"},
                                   {"a", "real"},
                                   {"a", "DECIMAL(10,2)"},
                                   {"a", "BOOLEAN"},
                                   {"b", "real"},
                                   {"b", "int"},
                                   {"r", "int"},
                                   {"h", "int"},
                                   {"f", "NUMERIC"},
                                   {"f", "text"},
                                   {"t", "boolean"},
                                   {"d", "DATE"},
                                   {"a", "INTERVAL"},
                                   {"a", "point"},
                                   {"i", "TEXT"}}) {
    EXPECT_EQ(said(name, type), "") << name << " " << type;
  }
}

TEST_F(Values, DefaultsThatDoNotFit) {
  load("params.a = { default = \"many\" }\nparams.b = { default = \"on\" }\nparams.n = { default = \"NaN\" }");
  EXPECT_EQ(complaints({{"a", bigint}}), "4:24 endpoint /films/{id:int}: this default of \"a\" must be an integer\n");
  EXPECT_EQ(complaints({{"a", real}}), "4:24 endpoint /films/{id:int}: this default of \"a\" must be a number\n");
  EXPECT_EQ(complaints({{"a", boolean}}), "4:24 endpoint /films/{id:int}: this default of \"a\" must be a boolean\n");
  EXPECT_EQ(complaints({{"a", text}, {"b", boolean}, {"n", real}, {"a", 0}}), "");
}

TEST_F(Values, DefaultsThatPostgresReads) {
  constexpr std::uint32_t numeric = 1700, float4 = 700;
  const auto said = [&](const std::string& text, std::uint32_t oid) {
    load("params.a = { default = \"" + text + "\" }");
    return complaints({{"a", oid}});
  };
  for (const char* one : {"inf", "-inf", "+Inf", "infinity", "-INFINITY", "Infinity", "nan", "NaN", " 7.5 ", "-1e300",
                          ".5", "5.", "+5", "0x1F", "1_000"}) {
    for (const std::uint32_t oid : {float4, real, numeric}) EXPECT_EQ(said(one, oid), "") << one;
  }
  for (const char* one : {"tru", "T", "YES", " on ", "of", "off", "n", "1", "fals"})
    EXPECT_EQ(said(one, boolean), "") << one;
  for (const char* one : {" 7 ", "+7", "-7", "007", "0x1F", "1_000"}) EXPECT_EQ(said(one, bigint), "") << one;
  for (const char* one : {"", "o", "onn", "2", "truer"}) EXPECT_NE(said(one, boolean), "") << one;
  for (const char* one : {"", "-", "inf", "7.5", "1e3", "a7", "--7", "+-7"}) EXPECT_NE(said(one, bigint), "") << one;
  for (const char* one : {"", "in", "infinit", "e5", "7 5", "--7", "."}) EXPECT_NE(said(one, real), "") << one;
}

TEST_F(Values, TheEnvironmentsToo) {
  variable_ = "many";
  load("params.a = { from = \"env.A\", type = \"int\" }");
  EXPECT_EQ(complaints({{"a", bigint}}),
            "4:21 endpoint /films/{id:int}: the environment's value of \"a\" must be an integer\n");
  variable_ = "7";
  load("params.a = { from = \"env.A\", type = \"int\", max = 5 }");
  EXPECT_EQ(complaints({{"a", bigint}}),
            "4:21 endpoint /films/{id:int}: the environment's value of \"a\" must be at most 5\n");
  load("params.a = { from = \"env.A\", type = \"int\" }");
  EXPECT_EQ(complaints({{"a", bigint}}), "");
}

TEST_F(Values, TwoParametersFromOneQueryParameter) {
  load("params.a = { from = \"query.x\" }\nparams.b = { from = \"query.x\" }\nparams.c = { from = \"header.x\" }");
  const std::string from_x = " come from the same query parameter, \"x\"\n";
  EXPECT_EQ(complaints({{"a", 0}, {"b", 0}}), "5:21 endpoint /films/{id:int}: \"a\" and \"b\"" + from_x);
  EXPECT_EQ(complaints({{"a", 0}, {"x", 0}}), "4:21 endpoint /films/{id:int}: \"a\" and \"x\"" + from_x);
  EXPECT_EQ(complaints({{"x", 0}, {"a", 0}}), "4:21 endpoint /films/{id:int}: \"x\" and \"a\"" + from_x);
  EXPECT_EQ(complaints({{"a", 0}, {"a", 0}, {"c", 0}, {"id", 0}}), "");
}

TEST_F(Values, ColumnsThatAreNotThere) {
  load("[endpoint.post]\ntable = \"films\"\ncolumns.slgu = {}\ncolumns.id = {}\ncolumns.name = {}");
  sql::Table table;
  for (const char* name : {"id", "slug", "name"}) {
    table.columns.push_back({.name = name, .type = "text", .collation = {}, .default_value = {}});
  }
  table.columns[0].generated = true;
  std::vector<Diagnostic> errors;
  const api::EndpointOptions& endpoint = config_.options.endpoints[0];
  EXPECT_FALSE(check_columns(endpoint, http::Method::post, *endpoint.post, table, errors));
  EXPECT_EQ(text_of(errors),
            "6:9 endpoint /films/{id:int}: the table films has no column \"slgu\"\n"
            "7:9 endpoint /films/{id:int}: the database makes the values of \"id\" itself\n");
  EXPECT_EQ(errors[0].hint, "did you mean \"slug\"?");
  EXPECT_EQ(errors[1].hint, "leave it out: a body's value of it is ignored");
}

TEST_F(Values, AGeneratedKeyIsComparedAndNeverWritten) {
  load("[endpoint.patch]\ntable = \"films\"\ncolumns.id = { key = true, from = \"path.id\" }\ncolumns.name = {}");
  sql::Table table;
  for (const char* name : {"id", "name"}) {
    table.columns.push_back({.name = name, .type = "text", .collation = {}, .default_value = {}});
  }
  table.columns[0].generated = true;
  std::vector<Diagnostic> errors;
  const api::EndpointOptions& endpoint = config_.options.endpoints[0];
  api::MethodOptions method = *endpoint.patch;
  EXPECT_TRUE(check_columns(endpoint, http::Method::patch, method, table, errors));
  EXPECT_TRUE(check_columns(endpoint, http::Method::delete_, method, table, errors));
  EXPECT_FALSE(check_columns(endpoint, http::Method::put, method, table, errors));
  method.set.value = true;
  EXPECT_FALSE(check_columns(endpoint, http::Method::patch, method, table, errors));
  EXPECT_EQ(errors.back().hint,
            "this method writes its keys: name another (PostgreSQL: or declare it GENERATED BY DEFAULT AS IDENTITY)");
  table.columns[1].generated = true;
  EXPECT_FALSE(check_columns(endpoint, http::Method::delete_, *endpoint.patch, table, errors));
}

}  // namespace
}  // namespace sluice::app::config
