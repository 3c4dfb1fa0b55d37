#include "app/suite/file.h"

#include <gtest/gtest.h>

namespace sluice::app::suite {
namespace {

// The errors as they are shown, but without lines of the file. Empty if there are none.
std::string complaints(const std::string& text) {
  const auto suite = parse_suite(config::Source("t", text));
  if (suite) return "";
  std::string result;
  for (const auto& error : suite.error().list) {
    result += std::to_string(error.position.line) + ":" + std::to_string(error.position.column) + " " + error.message;
    if (!error.hint.empty()) result += " (" + error.hint + ")";
    result += "\n";
  }
  return result;
}
std::string step(const std::string& text) { return complaints("config = \"c\"\n[[step]]\n" + text); }

TEST(SuiteFile, IsRead) {
  const auto suite = parse_suite(config::Source("t", R"(config = "films.toml"
timeout = "2s"
headers = { Authorization = "Bearer ${token}" }
[database.main]
schema = ["schema.${database}.sql"]
[variables]
token = "abc"
limit = 10
[[step]]
name = "create"
request = "POST /films"
json = { slug = "alien", tags = ["a"], score = 8.5, year = "#null" }
status = 201
expect_headers = { Location = "#matches ^/films/" }
set = { id = "body.id" }
[step.expect]
id = "#number"
deep.er = true
[[step]]
request = "GET /films/${id}?limit=${limit}"
table = """
slug, n
"alien", "#any"
"""
unordered = true
[[step]]
sql = "SELECT count(*) AS n FROM films WHERE id = :id"
exact = [{ n = 1 }]
only = "sqlite"
)"));
  EXPECT_FALSE(!suite) << suite.error().text();
  ASSERT_TRUE(suite);
  ASSERT_EQ(suite->steps.size(), 3u);
  const Step& create = suite->steps[0];
  EXPECT_EQ(create.name, "create");
  EXPECT_EQ(create.method, "POST");
  EXPECT_EQ(create.target, "/films");
  EXPECT_EQ(print_json(*create.json), R"({"slug": "alien", "tags": ["a"], "score": 8.5, "year": null})");
  EXPECT_EQ(print_json(*create.expected), R"({"id": #number, "deep": {"er": true}})");
  EXPECT_EQ(create.match, Match::subset);
  EXPECT_EQ(create.options.position.line, 9u);
  EXPECT_EQ(suite->steps[1].name, "GET /films/${id}?limit=${limit}");
  EXPECT_EQ(print_json(*suite->steps[1].expected), R"([{"slug": "alien", "n": #any}])");
  EXPECT_EQ(suite->steps[1].order, Order::any);
  EXPECT_EQ(suite->steps[2].match, Match::exact);
  EXPECT_FALSE(suite->steps[2].is_request());
  EXPECT_EQ(suite->options.timeout, 2s);
  EXPECT_EQ(schema_file(suite->options.databases[0].value.schema[0].value, DatabaseKind::postgres),
            "schema.postgres.sql");
}

TEST(SuiteFile, WhatIsWrongHasItsPlace) {
  EXPECT_EQ(complaints(""), "0:0 the file needs the key \"config\"\n0:0 the file needs the key \"step\"\n");
  EXPECT_EQ(step("request = \"GET /\"\nstatsu = 1"),
            "4:1 unknown key \"statsu\" in [[step]] (did you mean \"status\"?)\n");
  EXPECT_EQ(step("name = \"a\""), "2:1 a step needs a \"request\" or \"sql\"\n");
  EXPECT_EQ(step("request = \"GET /\"\nsql = \"SELECT 1\""), "2:1 a step has a \"request\" or \"sql\", not both\n");
  for (const char* request : {"GET", "/films", "get /films", "GET films"}) {
    EXPECT_EQ(step("request = \"" + std::string(request) + "\""),
              "3:11 a request is a method and a path (write \"GET /films?q=a\")\n");
  }
  EXPECT_EQ(step("request = \"GET /a b\""), "3:11 a path has no blanks and no control characters (write %20)\n");
  EXPECT_EQ(
      step("request = \"GET /\"\njson = '''{\"a\": }'''"),
      "4:17 this is not JSON: a value is expected (a string here is JSON text; write a table, or a list of tables)\n");
  EXPECT_EQ(step("request = \"GET /\"\nexpect = { id = \"#nmber\" }"),
            "4:17 there is no marker #nmber (did you mean \"number\"?)\n");
  EXPECT_EQ(step("request = \"GET /\"\ntable = '''\na, b\n1\n'''"),
            "6:1 this row has 1 values, and there are 2 columns\n");
  EXPECT_EQ(step("request = \"GET /\"\nexpect = { a = 1 }\nunordered = true"),
            "5:13 \"unordered\" is for rows: a \"table\", or a list\n");
  EXPECT_EQ(step("request = \"GET /\"\nexpect = { a = 1979-05-27 }"),
            "4:16 step.expect.a must be a value that JSON has too, not a date or time (write it in quotes)\n");
  EXPECT_EQ(step("request = \"GET /\"\nexpect = { a = nan }"), "4:16 JSON has no such number\n");
  EXPECT_EQ(
      step("request = \"GET /\"\nset = { id = \"id\" }"),
      "4:14 this is not a part of the answer (write \"body.id\", \"body.0.id\", \"header.Location\" or \"status\")\n");
  EXPECT_EQ(step("sql = \"SELECT 1\"\nset = { id = \"body.id\" }"),
            "4:14 this is not a part of the answer (write \"rows.0.id\")\n");
  EXPECT_EQ(step("sql = \" \\n\""), "3:7 a statement must not be empty\n");
  EXPECT_EQ(step("sql = \"SELECT 1\"\nstatus = 200"), "4:10 \"status\" is for a request\n");
  EXPECT_EQ(step("request = \"GET /\"\nsqlstate = \"23505\""), "4:12 \"sqlstate\" is for \"sql\"\n");
  EXPECT_EQ(step("request = \"GET /\"\njson = {}\nbody = \"\""),
            "2:1 a request has one body: \"json\", \"body\", \"body_file\" or \"form\"\n");
  EXPECT_EQ(step("request = \"GET /\"\nform.a = { value = \"x\", file = \"y\" }"),
            "4:6 a part of a form has a \"value\" or a \"file\"\n");
  EXPECT_EQ(step("request = \"GET /\"\nform.a = { type = \"x/y\" }"),
            "4:6 a part of a form has a \"value\" or a \"file\"\n");
  EXPECT_EQ(step("request = \"GET /\"\nform.a = { value = \"x\", filename = \"y\" }"),
            "4:6 \"filename\" is for a \"file\"\n");
  EXPECT_EQ(step("request = \"GET /\"\nform.a = { file = \"x\", filename = \"y\\\"\" }"),
            "4:6 this cannot be written into the header of a part\n");
  EXPECT_EQ(step("request = \"GET /\"\nform.a = \"${none}\"").substr(0, 32), "4:6 nothing above sets \"none\"\n");
  EXPECT_EQ(step("request = \"GET /\"\nexpect_file = \"a\"\ntext = \"b\""),
            "4:15 a body that is compared with a file is compared with nothing else\n");
  EXPECT_EQ(step("sql = \"SELECT 1\"\nexpect_file = \"a\""), "4:15 \"expect_file\" is for a request\n");
  EXPECT_EQ(step("sql = \"SELECT 1\"\nform.a = \"x\""), "4:6 \"form\" is for a request\n");
  EXPECT_EQ(complaints("config = \"c\"\nruns_on = [\"sqlite\"]\n[[step]]\nsql = \"SELECT 1\"\nonly = \"postgres\""),
            "5:8 \"runs_on\" does not have this database: the step would never run\n");
}

TEST(SuiteFile, VariablesAreKnownFromTheStepOnThatSetsThem) {
  EXPECT_EQ(step("request = \"GET /films/${id}\"\nset = { id = \"body.id\" }"), "3:23 nothing above sets \"id\"\n");
  EXPECT_EQ(step("request = \"GET /\"\nset = { id = \"body.id\" }\n[[step]]\nrequest = \"GET /${idd}\""),
            "6:17 nothing above sets \"idd\" (did you mean \"id\"?)\n");
  EXPECT_EQ(step("sql = \"SELECT :id\""), "3:15 nothing above sets \"id\"\n");
  EXPECT_EQ(step("request = \"GET /\"\njson = { a = [\"x ${y}\"] }"), "4:18 nothing above sets \"y\"\n");
  EXPECT_EQ(
      complaints(
          "config = \"c\"\nvariables = { a = 1 }\n[[step]]\nrequest = \"GET /\"\njson = \"${a}\"\nexpect = '\"${a}\"'"),
      "");
  EXPECT_EQ(step("request = \"GET /${env.HOME}/$${x}\""), "");
  EXPECT_EQ(step("request = \"GET /${\""),
            "3:17 ${ must be followed by a name and }, as in ${id} or ${env.NAME}; $${ stands for ${ itself\n");
}

}  // namespace
}  // namespace sluice::app::suite
