#pragma once

#include <expected>
#include <string_view>
#include <vector>

#include "api/options.h"
#include "app/prepare/kind.h"
#include "base/declare.h"

namespace sluice::app {

// The kind of route [[endpoint]], and its tables.
struct EndpointTables {
  static constexpr std::string_view name = "[[endpoint]]";
  static constexpr Nouns nouns = {"endpoint", "endpoints"};
  std::vector<api::EndpointOptions> endpoints;

  template <class Visitor>
  static void declare(Visitor& v) {
    v.field("endpoint", &EndpointTables::endpoints, "A resource whose requests are answered by SQL statements.");
  }
  static void resolve(Options& options, const config::Paths& paths);
  static void check(config::Checks& checks);
  static std::vector<Shape> shapes(const api::EndpointOptions& options);
  static std::expected<void, Away> prepare(Preparation& preparation);
};

}  // namespace sluice::app
