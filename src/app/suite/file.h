#pragma once

#include <expected>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "app/config/source.h"
#include "app/suite/expectation.h"
#include "app/suite/json.h"
#include "app/suite/options.h"

namespace sluice::app::suite {

// A prepared step. Its strings still contain ${variables}.
struct Step {
  StepOptions options;
  std::string name;

  [[nodiscard]] bool is_request() const { return options.request.has_value(); }
  std::string method;  // of the request
  std::string target;
  std::optional<Json> token;  // the claims of the request's token
  std::optional<Json> json;   // the body

  std::vector<std::pair<std::string, Json>> expect_headers;
  std::optional<Json> text;
  std::optional<Json> expected;
  Match match = Match::subset;
  Order order = Order::same;
};

// A checked file of tests: every name in it is known, and every expectation can be read.
struct Suite {
  config::Source source;
  std::string folder;  // relative paths start here
  Options options;
  std::vector<std::pair<std::string, Json>> variables;
  std::vector<Step> steps;

  [[nodiscard]] std::string file(std::string_view path) const;
  [[nodiscard]] bool runs_on(DatabaseKind kind) const;
};

// Reads and checks a file. The files that it names must exist.
[[nodiscard]] std::expected<Suite, config::Errors> load_suite(const std::string& path);

// The same without the file system.
[[nodiscard]] std::expected<Suite, config::Errors> parse_suite(config::Source source);

// The name of a schema's file for one kind of database.
[[nodiscard]] std::string schema_file(std::string_view written, DatabaseKind kind);

// "body.films.0.slug" -> body, films, 0, slug.
[[nodiscard]] std::vector<std::string> split_path(std::string_view path);

}  // namespace sluice::app::suite
