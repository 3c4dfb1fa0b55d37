#pragma once

#include <expected>
#include <string_view>
#include <vector>

#include "app/prepare/kind.h"
#include "base/declare.h"
#include "gateway/proxy/options.h"

namespace sluice::app {

// The kind of route [[route]], and its tables.
struct GatewayTables {
  static constexpr std::string_view name = "[[route]]";
  static constexpr Nouns nouns = {"route", "routes"};
  std::vector<gateway::RouteOptions> routes;

  template <class Visitor>
  static void declare(Visitor& v) {
    v.field("route", &GatewayTables::routes,
            "A path whose requests are passed on to an upstream, redirected, or answered with a fixed response.");
  }
  static void check(config::Checks& checks);
  static std::vector<Shape> shapes(const gateway::RouteOptions& options);
  static std::expected<void, Away> prepare(Preparation& preparation);
};

}  // namespace sluice::app
