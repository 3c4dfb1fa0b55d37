#pragma once

#include <atomic>
#include <climits>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "api/changes/feed.h"
#include "app/access_log.h"
#include "app/changes.h"
#include "app/metrics.h"
#include "app/prepare.h"
#include "app/request_log.h"
#include "base/log.h"
#include "core/blocking_pool.h"
#include "core/core.h"
#include "files/static_files.h"
#include "files/store.h"
#include "gateway/chain.h"
#include "gateway/jwt/policy.h"
#include "http/compress/compression.h"
#include "http/redirect.h"
#include "http/router.h"
#include "http/server.h"
#include "http/websocket/endpoint.h"
#include "sql/database.h"
#include "sql/open.h"

namespace sluice::app {

// What the process leaves its clients of its descriptors.
struct Descriptors {
  int most = INT_MAX;             // a connection whose descriptor is not below it is closed
  TroubleLog* trouble = nullptr;  // told that there are none
};

// Everything that one core serves with: its databases, handlers, router and server. Made, used and destroyed on it.
class Service final : http::Observer {
 public:
  // Throws what cannot be opened.
  // `troubles` and `shared`: one for each database, shared by all cores; `shared` may be null. `editions`: the first of
  // each resident table.
  Service(core::Core& core, std::shared_ptr<const Plan> plan, core::BlockingPool& threads,
          std::span<const std::unique_ptr<TroubleLog>> troubles,
          std::span<const std::unique_ptr<sql::SharedDatabase>> shared,
          std::span<const api::resident::Edition> editions, const Descriptors& descriptors = {});
  ~Service() override;

  // For the connections from now on.
  void set_tls(std::shared_ptr<const net::tls::ServerContext> context,
               std::shared_ptr<const net::tls::TicketKeys> tickets) {
    server_.set_tls(std::move(context), std::move(tickets));
  }
  // Where requests without TLS are sent to, if they are.
  void set_https_port(std::uint16_t port) {
    if (redirect_) redirect_->set_port(port);
  }
  // By policy, for the requests from now on.
  void set_keys(const std::vector<std::shared_ptr<const gateway::jwt::KeySet>>& keys) {
    for (std::size_t i = 0; i < policies_.size(); ++i) policies_[i]->set_keys(keys[i]);
  }
  // Throws std::system_error where the address cannot be bound. `secure`: with TLS; set_tls() comes first.
  void listen(const core::Address& address, bool secure);

  // What a resident table is from now on; by index in Plan::residents.
  void publish(std::size_t resident, const api::resident::Edition& edition) { residents_[resident]->publish(edition); }
  // Answers that are still sent of a table which that resident serves no more.
  void cut_answers_of(std::size_t resident, const api::resident::Table* table) {
    residents_[resident]->each_owner_of(table, [&](const void* owner) { server_.cut_answers_of(owner); });
  }
  [[nodiscard]] sql::Database& database(std::size_t index) { return *databases_[index]; }
  // What has changed, for the feeds of this core.
  void deliver(const Deliveries& deliveries);

  // Stops accepting, lets what runs finish for at most `grace`, counts itself off `cores_left`, then stops the core.
  void drain(Duration grace, std::atomic<unsigned>& cores_left);
  [[nodiscard]] bool draining() const { return draining_; }

  // The first database that cannot answer; nothing: all can.
  core::Task<std::optional<std::string>> find_unready(Instant deadline);

  // What the core has counted; a value that may cross to another core.
  struct Snapshot {
    RequestMetrics requests;
    http::Server::Counters server;
    std::vector<std::vector<sql::Reading>> databases;  // by database
    files::Cache::Counters files;
    RequestLog::Counters request_log;
    http::compress::Counters compression;
    ws::Counters websockets;
    std::vector<files::Store::Counters> stores;                // by store
    std::vector<gateway::jwt::Counters> policies;              // by policy
    std::vector<api::changes::Counters> changes;               // by index in Plan::changes
    std::vector<api::resident::Resident::Counters> residents;  // by index in Plan::residents
  };
  [[nodiscard]] Snapshot snapshot() const;

 private:
  // What stands in front of a route; null: nothing.
  http::Policy* compile(const std::vector<Located<std::string>>& use);
  void completed(const http::Completion& completion) override;
  core::Task<void> give_memory_back(core::BlockingPool& threads);
  [[nodiscard]] http::Handler& first_handler() {
    return compression_ ? static_cast<http::Handler&>(*compression_) : router_;
  }

  core::Core& core_;
  const std::shared_ptr<const Plan> plan_;
  std::vector<std::unique_ptr<sql::Database>> databases_;
  std::vector<std::unique_ptr<api::resident::Resident>> residents_;  // by index in Plan::residents
  std::vector<std::unique_ptr<api::changes::Feed>> feeds_;           // by index in Plan::changes
  http::websocket::Echo echo_;
  std::vector<std::unique_ptr<gateway::jwt::JwtPolicy>> policies_;
  std::vector<std::unique_ptr<gateway::Chain>> chains_;  // of routes with several of them
  std::vector<std::unique_ptr<files::Store>> stores_;
  std::vector<std::unique_ptr<http::Handler>> handlers_;
  std::vector<const files::StaticFiles*> files_;              // those of the handlers and the stores
  std::vector<const http::websocket::Endpoint*> websockets_;  // among the handlers
  RequestMetrics requests_;
  const Redaction redaction_;  // of both logs
  std::optional<AccessLog> access_log_;
  std::unique_ptr<RequestLog> request_log_;  // null: off
  core::TaskGroup writing_log_;
  http::Router router_;
  std::unique_ptr<http::compress::Compression> compression_;  // null: off
  std::optional<http::HttpsRedirect> redirect_;               // before the router, where it is asked for
  http::Server server_;
  core::TaskGroup giving_back_;
  bool draining_ = false;
};

}  // namespace sluice::app
