#pragma once

#include <expected>
#include <vector>

#include "app/prepare/kind.h"
#include "base/declare.h"
#include "files/options.h"

namespace sluice::app {

// The tables of [store.NAME].
struct StoreTables {
  std::vector<Named<files::StoreOptions>> stores;

  template <class Visitor>
  static void declare(Visitor& v) {
    v.field("store", &StoreTables::stores,
            "A folder for files that clients upload. Each file is named by the hash of its content.");
  }
  static void resolve(Options& options, const config::Paths& paths);
  static void check(config::Checks& checks);
  static std::expected<void, Away> prepare(Preparation& preparation);
};

}  // namespace sluice::app
