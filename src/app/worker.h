#pragma once

#include <atomic>
#include <climits>
#include <cstdint>
#include <map>
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
#include "app/plan.h"
#include "app/request_log.h"
#include "app/site.h"
#include "base/log.h"
#include "base/reading.h"
#include "core/blocking_pool.h"
#include "core/core.h"
#include "files/store.h"
#include "gateway/policy.h"
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

// What one core has whatever it serves: databases, tables, feeds, the server and what it counts; and the site that it
// serves. Made, used and destroyed on the core.
class Worker final : http::Observer {
 public:
  // Throws what cannot be opened.
  // `troubles` and `shared`: one for each database, shared by all cores; `shared` may be null. `editions`: the first of
  // each resident table.
  Worker(core::Core& core, std::shared_ptr<const Plan> plan, core::BlockingPool& threads,
         std::span<const std::unique_ptr<TroubleLog>> troubles,
         std::span<const std::unique_ptr<sql::SharedDatabase>> shared, std::span<const api::resident::Edition> editions,
         const Descriptors& descriptors = {});
  ~Worker() override;

  // For those who build handlers.
  [[nodiscard]] core::Reactor& reactor() { return core_.reactor(); }
  [[nodiscard]] core::Mailbox& mailbox() { return core_.mailbox(); }
  [[nodiscard]] core::BlockingPool& threads() { return threads_; }
  // By index in the options.
  [[nodiscard]] sql::Database& database(std::size_t index) { return *databases_[index]; }
  [[nodiscard]] TroubleLog* trouble(std::size_t database) { return troubles_[database].get(); }
  [[nodiscard]] gateway::Policy& policy(std::size_t index) { return *policies_[index]; }
  [[nodiscard]] files::Store& store(std::string_view name) { return *stores_[*plan_->options.find_store(name)]; }
  // Of a plan that is served.
  [[nodiscard]] api::changes::Feed& feed(const api::changes::Plan* plan) { return *feeds_.at(plan); }
  [[nodiscard]] api::resident::Resident& resident(const api::resident::Plan* plan) { return *residents_.at(plan); }
  [[nodiscard]] http::websocket::Echo& echo() { return echo_; }

  // For the connections from now on.
  void set_tls(std::shared_ptr<const net::tls::ServerContext> context,
               std::shared_ptr<const net::tls::TicketKeys> tickets) {
    server_.set_tls(std::move(context), std::move(tickets));
  }
  void set_https_port(std::uint16_t port) { site_.set_https_port(port); }
  // By policy, for the requests from now on.
  void set_keys(const std::vector<std::shared_ptr<const gateway::jwt::KeySet>>& keys) {
    for (std::size_t i = 0; i < policies_.size(); ++i) policies_[i]->set_keys(keys[i]);
  }
  // Throws std::system_error where the address cannot be bound. `secure`: with TLS; set_tls() comes first.
  void listen(const core::Address& address, bool secure);

  // What a resident table is from now on.
  void publish(const api::resident::Plan* plan, const api::resident::Edition& edition) {
    resident(plan).publish(edition);
  }
  // Answers that are still sent of a table which the resident serves no more.
  void cut_answers_of(const api::resident::Plan* plan, const api::resident::Table* table) {
    resident(plan).each_owner_of(table, [&](const void* owner) { server_.cut_answers_of(owner); });
  }
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
    Readings readings;
  };
  [[nodiscard]] Snapshot snapshot() const;

 private:
  void completed(const http::Completion& completion) override;
  core::Task<void> give_memory_back();

  core::Core& core_;
  const std::shared_ptr<const Plan> plan_;
  core::BlockingPool& threads_;
  const std::span<const std::unique_ptr<TroubleLog>> troubles_;  // by database
  std::vector<std::unique_ptr<sql::Database>> databases_;
  std::map<const api::resident::Plan*, std::unique_ptr<api::resident::Resident>> residents_;
  std::map<const api::changes::Plan*, std::unique_ptr<api::changes::Feed>> feeds_;
  http::websocket::Echo echo_;
  std::vector<std::unique_ptr<gateway::Policy>> policies_;
  std::vector<std::unique_ptr<files::Store>> stores_;
  RequestMetrics requests_;
  const Redaction redaction_;  // of both logs
  std::optional<AccessLog> access_log_;
  std::unique_ptr<RequestLog> request_log_;  // null: off
  core::TaskGroup writing_log_;
  Site site_;
  http::Server server_;
  core::TaskGroup giving_back_;
  bool draining_ = false;
};

}  // namespace sluice::app
