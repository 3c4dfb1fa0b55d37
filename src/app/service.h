#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "app/access_log.h"
#include "app/metrics.h"
#include "app/prepare.h"
#include "base/log.h"
#include "core/blocking_pool.h"
#include "core/core.h"
#include "http/router.h"
#include "http/server.h"
#include "sql/database.h"

namespace sluice::app {

// Everything that one core serves with: its databases, handlers, router and server. Made, used and destroyed on it.
class Service final : http::Observer {
 public:
  // Throws what cannot be opened.
  // `troubles`: one for each database, shared by all cores.
  Service(core::Core& core, std::shared_ptr<const Plan> plan, core::BlockingPool& threads,
          std::span<const std::unique_ptr<TroubleLog>> troubles);
  ~Service() override;

  // Throws std::system_error where the address cannot be bound.
  void listen(const core::Address& address);

  // Stops accepting, lets what runs finish for at most `grace`, then stops the core.
  void drain(Duration grace);
  [[nodiscard]] bool draining() const { return draining_; }

  // The first database that cannot answer; nothing: all can.
  core::Task<std::optional<std::string>> find_unready(Instant deadline);

  // What the core has counted; a value that may cross to another core.
  struct Snapshot {
    RequestMetrics requests;
    http::Server::Counters server;
    std::vector<std::vector<sql::Reading>> databases;  // by database
  };
  [[nodiscard]] Snapshot snapshot() const;

 private:
  void completed(const http::Completion& completion) override;

  core::Core& core_;
  const std::shared_ptr<const Plan> plan_;
  std::vector<std::unique_ptr<sql::Database>> databases_;
  std::vector<std::unique_ptr<http::Handler>> handlers_;
  RequestMetrics requests_;
  std::optional<AccessLog> access_log_;
  http::Router router_;
  http::Server server_;
  bool draining_ = false;
};

}  // namespace sluice::app
