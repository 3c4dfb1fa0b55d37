#pragma once

#include <expected>
#include <vector>

#include "app/prepare/kind.h"
#include "base/declare.h"
#include "gateway/proxy/options.h"

namespace sluice::app {

// The tables of [[upstream]].
struct UpstreamTables {
  std::vector<gateway::UpstreamOptions> upstreams;

  template <class Visitor>
  static void declare(Visitor& v) {
    v.field("upstream", &UpstreamTables::upstreams, "A group of servers that requests are passed on to.");
  }
  static void resolve(Options& options, const config::Paths& paths);
  static void check(config::Checks& checks);
  static std::expected<void, Away> prepare(Preparation& preparation);
};

}  // namespace sluice::app
