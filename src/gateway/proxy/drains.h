#pragma once

#include <mutex>
#include <set>
#include <string>

namespace sluice::gateway {

// The servers of an upstream that an operator has drained, by name. It goes over from one version of the upstream's
// configuration to the next, whatever differs. All cores share it.
class Drains {
 public:
  [[nodiscard]] bool has(const std::string& server) const {
    const std::lock_guard lock(mutex_);
    return servers_.contains(server);
  }
  void set(const std::string& server, bool is_drained) {
    const std::lock_guard lock(mutex_);
    if (is_drained) {
      servers_.insert(server);
    } else {
      servers_.erase(server);
    }
  }

 private:
  mutable std::mutex mutex_;
  std::set<std::string> servers_;
};

}  // namespace sluice::gateway
