#pragma once

#include <expected>

#include "app/prepare/kind.h"

namespace sluice::app {

// The kind of component for services in C++. It has no tables: a program brings its services along.
struct ServiceTables {
  template <class Visitor>
  static void declare(Visitor&) {}
  static void check(config::Checks& /*checks*/) {}
  static std::expected<void, Away> prepare(Preparation& preparation);
};

}  // namespace sluice::app
