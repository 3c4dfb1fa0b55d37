#include "app/config/statement.h"

#include <gtest/gtest.h>

#include "app/config/load.h"

namespace sluice::app::config {
namespace {

Config endpoint(const std::string& lines) {
  auto config = parse(Source("a.toml", "[[endpoint]]\n" + lines + "\n[database.main]\nurl = \"sqlite:a.db\"\n"),
                      [](std::string_view) { return std::nullopt; });
  EXPECT_TRUE(config) << config.error().text();
  return *config;
}

TEST(Statement, RefusedAtThePlaceThatTheDatabaseNames) {
  Config config = endpoint("path = \"/films\"\nget = \"\"\"\nSELECT id,\n  nme\nFROM films\"\"\"");
  sql::Error error{.failure = sql::Failure::statement,
                   .sqlstate = "42703",
                   .message = "column \"nme\" does not exist",
                   .position = 14};
  EXPECT_EQ(
      config.source.render(statement_refused("endpoint /films", config.options.endpoints[0].get, error, config.source)),
      "a.toml:5:3: error: endpoint /films: column \"nme\" does not exist\n"
      "  5 |   nme\n"
      "    |   ^\n"
      "    = SQLSTATE 42703\n");
  error.position = 0;
  error.sqlstate.clear();
  EXPECT_EQ(
      config.source.render(statement_refused("endpoint /films", config.options.endpoints[0].get, error, config.source)),
      "a.toml:3:7: error: endpoint /films: column \"nme\" does not exist\n"
      "  3 | get = \"\"\"\n"
      "    |       ^\n");
}

TEST(Statement, ParametersThatItDoesNotUse) {
  Config config = endpoint(
      "path = \"/ü/{slug}/{id:int}\"\nget = \"SELECT :slugg, :limit\"\nparams.limit = \"int\"\nparams.ofset = \"int\"");
  std::vector<std::string_view> used{"slugg", "limit", "offset"};
  Errors errors{config.source, {}};
  check_parameters(config.options.endpoints[0], used, sql::PlaceholderStyle::question, config.source, errors.list);
  EXPECT_EQ(errors.text(),
            "a.toml:2:12: error: endpoint /ü/{slug}/{id:int}: the statement does not use :slug\n"
            "  2 | path = \"/ü/{slug}/{id:int}\"\n"
            "    |            ^\n"
            "    = did you mean \"slugg\"?\n"
            "a.toml:2:19: error: endpoint /ü/{slug}/{id:int}: the statement does not use :id\n"
            "  2 | path = \"/ü/{slug}/{id:int}\"\n"
            "    |                   ^\n"
            "a.toml:5:8: error: endpoint /ü/{slug}/{id:int}: the statement does not use :ofset\n"
            "  5 | params.ofset = \"***\"\n"
            "    |        ^\n"
            "    = did you mean \"offset\"?\n");

  errors.list.clear();
  used = {"slug", "limit", "id", "ofset"};
  check_parameters(config.options.endpoints[0], used, sql::PlaceholderStyle::question, config.source, errors.list);
  EXPECT_EQ(errors.text(), "");
}

}  // namespace
}  // namespace sluice::app::config
