#pragma once

#include <expected>
#include <optional>
#include <string_view>
#include <vector>

#include "api/batch/options.h"
#include "app/prepare/kind.h"
#include "base/declare.h"

namespace sluice::app {

// The kind of route [batch], and its tables.
struct BatchTable {
  static constexpr std::string_view name = "[batch]";
  static constexpr Nouns nouns = {"path for batches", "paths for batches"};
  std::optional<api::batch::Options> batch;

  template <class Visitor>
  static void declare(Visitor& v) {
    v.field("batch", &BatchTable::batch,
            "Lets clients send several calls of endpoints as one request, which runs in one transaction.");
  }
  static void check(config::Checks& checks);
  static std::vector<Shape> shapes(const api::batch::Options& options);
  static std::expected<void, Away> prepare(Preparation& preparation);
};

}  // namespace sluice::app
