#pragma once

#include <expected>
#include <vector>

#include "app/components/service/options.h"
#include "app/prepare/kind.h"
#include "base/declare.h"

namespace sluice::app {

// The tables of [service.NAME]. A program brings its services along, so each has a component, also without a table.
struct ServiceTables {
  std::vector<Named<ServiceOptions>> services;

  template <class Visitor>
  static void declare(Visitor& v) {
    v.field("service", &ServiceTables::services, "Limits for the sessions of a C++ service.");
  }
  static void check(config::Checks& checks);
  static std::expected<void, Away> prepare(Preparation& preparation);
};

}  // namespace sluice::app
