#pragma once

#include <expected>
#include <optional>
#include <string_view>
#include <vector>

#include "api/openapi/options.h"
#include "app/prepare/kind.h"
#include "base/declare.h"

namespace sluice::app {

// The kind of route [openapi], and its tables.
struct OpenApiTable {
  static constexpr std::string_view name = "[openapi]";
  static constexpr Nouns nouns = {"OpenAPI document", "OpenAPI documents"};
  std::optional<api::openapi::Options> openapi;

  template <class Visitor>
  static void declare(Visitor& v) {
    v.field("openapi", &OpenApiTable::openapi,
            "Serves a description of the endpoints as OpenAPI 3.1, for clients and their tools.");
  }
  static void check(config::Checks& checks);
  static std::vector<Shape> shapes(const api::openapi::Options& options);
  static std::expected<void, Away> prepare(Preparation& preparation);
};

}  // namespace sluice::app
