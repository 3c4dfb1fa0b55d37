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
#include "app/listeners.h"
#include "app/metrics.h"
#include "app/plan.h"
#include "app/request_log.h"
#include "app/site.h"
#include "base/log.h"
#include "base/reading.h"
#include "core/blocking_pool.h"
#include "core/core.h"
#include "files/store.h"
#include "gateway/jwt/keys.h"
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
// serves, one after the other. Made, used and destroyed on the core.
class Worker final : http::Observer, http::Dispatcher {
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
  [[nodiscard]] files::Store& store(std::string_view name) { return *stores_[*plan_->options.find_store(name)]; }
  // Of a plan that is served.
  [[nodiscard]] api::changes::Feed& feed(const api::changes::Plan* plan) { return *feeds_.at(plan->path); }
  [[nodiscard]] api::resident::Resident& resident(const api::resident::Plan* plan) {
    return *residents_.at(plan->name);
  }
  [[nodiscard]] http::websocket::Echo& echo() { return echo_; }

  // For the connections from now on.
  void set_tls(std::shared_ptr<const net::tls::ServerContext> context,
               std::shared_ptr<const net::tls::TicketKeys> tickets) {
    server_.set_tls(std::move(context), std::move(tickets));
  }
  // Binds those addresses that are not bound yet. Throws std::system_error where one cannot be.
  void bind(std::span<const http::Listening> addresses);
  // From now on it listens with these, on addresses that are bound. Throws likewise.
  void listen(const ListenerSet& listeners);
  // By policy of the plan, for the requests from now on, if that is the one that is served.
  void set_keys(const Plan& plan, const std::vector<std::shared_ptr<const gateway::jwt::KeySet>>& keys) {
    if (site_->plan().get() == &plan) site_->set_keys(keys);
  }

  // What is served next. build_next() makes it ready and throws what cannot be served; then either serve_next(), from
  // which on every request is answered by it, or forget_next().
  // Precondition: databases, tables, feeds and all that is of the process are those of the first plan.
  void build_next(std::shared_ptr<const Plan> plan);
  // `keys`: of its policies, which may be newer than those of the plan.
  void serve_next(const std::vector<std::shared_ptr<const gateway::jwt::KeySet>>& keys);
  void forget_next() { next_.reset(); }
  // The earlier sites that answers still need.
  [[nodiscard]] std::size_t earlier_sites() const { return earlier_.size(); }
  // Of routes, by id: those of earlier sites too.
  [[nodiscard]] const std::vector<std::string>& route_names() const { return site_->plan()->names; }

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
  friend class Site;
  void completed(const http::Completion& completion) override;
  [[nodiscard]] core::Async<http::Response> dispatch(http::Exchange& exchange) override {
    exchange.pin = http::Pin(*site_);
    return site_->dispatcher().dispatch(exchange);
  }
  void set_server_options(const Plan& plan);
  // Nothing needs the site any more.
  void unpinned(Site& site);
  core::Task<void> give_memory_back();

  core::Core& core_;
  const std::shared_ptr<const Plan> plan_;  // the first
  core::BlockingPool& threads_;
  const std::span<const std::unique_ptr<TroubleLog>> troubles_;  // by database
  std::vector<std::unique_ptr<sql::Database>> databases_;
  std::map<std::string, std::unique_ptr<api::resident::Resident>> residents_;  // by name
  std::map<std::string, std::unique_ptr<api::changes::Feed>> feeds_;           // by path
  http::websocket::Echo echo_;
  std::vector<std::unique_ptr<files::Store>> stores_;
  RequestMetrics requests_;
  const Redaction redaction_;  // of both logs
  std::optional<AccessLog> access_log_;
  std::unique_ptr<RequestLog> request_log_;  // null: off
  core::TaskGroup writing_log_;
  const Descriptors descriptors_;
  std::uint16_t https_port_ = 443;
  Readings ended_;  // what the handlers of sites that have ended had counted
  std::vector<std::unique_ptr<Site>> earlier_;
  std::unique_ptr<Site> site_;
  std::unique_ptr<Site> next_;
  http::Pin serving_{*site_};  // so that the site which is served is never let go of
  http::Server server_;
  core::TaskGroup giving_back_;
  bool draining_ = false;
};

}  // namespace sluice::app
