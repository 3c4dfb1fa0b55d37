#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "app/reloader.h"
#include "app/residents.h"
#include "app/worker.h"
#include "core/core.h"
#include "http/router.h"
#include "http/server.h"

namespace sluice::app {

// The operators' listener, on the first core: /livez, /readyz, /metrics, /upstreams, /jwt/revoke, /explain, /reload. It
// does not authenticate clients.
class Admin {
 public:
  // `workers` holds one worker for each core, by index; entries may be null until all cores are running. `reloader` is
  // null in tests.
  Admin(core::Core& core, const Io& io, std::span<Worker* const> workers, Reloader* reloader,
        const Changes* changes = nullptr, const Residents* residents = nullptr);
  ~Admin();

  // Throws std::system_error if the address cannot be bound.
  void listen(const core::Address& address);

 private:
  class Live;
  class Ready;
  class Metrics;
  class Reload;
  class NoBrowsers;

  std::shared_ptr<NoBrowsers> no_browsers_;
  std::vector<std::unique_ptr<http::Handler>> handlers_;
  http::Router router_;
  http::Server server_;
};

}  // namespace sluice::app
