#pragma once

#include <memory>
#include <set>
#include <string>
#include <utility>

#include "core/current.h"

namespace sluice::gateway {

// The servers of an upstream that an operator has drained, by name. It goes over from one version of the upstream's
// configuration to the next, whatever differs. All cores read it; the core that owns the upstream changes it.
class Drains {
 public:
  [[nodiscard]] bool has(const std::string& server) const { return servers_.latest()->contains(server); }
  void set(const std::string& server, bool is_drained) {
    auto next = std::make_shared<std::set<std::string>>(*servers_.latest());
    if (is_drained) {
      next->insert(server);
    } else {
      next->erase(server);
    }
    servers_.publish(std::move(next));
  }

 private:
  core::Current<std::set<std::string>> servers_{std::make_shared<const std::set<std::string>>()};
};

}  // namespace sluice::gateway
