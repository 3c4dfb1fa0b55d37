#pragma once

#include <expected>
#include <string_view>
#include <vector>

#include "api/resident/options.h"
#include "app/prepare/kind.h"
#include "base/declare.h"

namespace sluice::app {

// The kind of route [[resident]], and its tables.
struct ResidentTables {
  static constexpr std::string_view name = "[[resident]]";
  static constexpr Nouns nouns = {"resident table", "resident tables"};
  std::vector<api::resident::ResidentOptions> residents;

  template <class Visitor>
  static void declare(Visitor& v) {
    v.field("resident", &ResidentTables::residents, "The rows of a query, kept in memory.");
  }
  static void check(config::Checks& checks);
  static std::vector<Shape> shapes(const api::resident::ResidentOptions& options);
  static std::expected<void, Away> prepare(Preparation& preparation);
};

}  // namespace sluice::app
