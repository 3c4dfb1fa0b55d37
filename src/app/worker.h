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

#include "app/access_log.h"
#include "app/changes.h"
#include "app/listeners.h"
#include "app/metrics.h"
#include "app/plan.h"
#include "app/site.h"
#include "base/log.h"
#include "base/reading.h"
#include "core/blocking_pool.h"
#include "core/core.h"
#include "gateway/jwt/keys.h"
#include "http/server.h"
#include "http/websocket/endpoint.h"
#include "sql/database.h"

namespace sluice::app {

// What the process leaves its clients of its descriptors.
struct Descriptors {
  int most = INT_MAX;             // a connection whose descriptor is not below it is closed
  TroubleLog* trouble = nullptr;  // told that there are none
};

// What one core has whatever it serves: the server and what it counts; and the sites that it serves, one after the
// other. Made, used and destroyed on the core.
class Worker final : http::Observer, http::Dispatcher {
 public:
  // Throws what cannot be opened. What databases share is open (open_shared_parts()), and tables have their rows.
  Worker(core::Core& core, const std::shared_ptr<const Plan>& plan, core::BlockingPool& threads,
         const Descriptors& descriptors = {});
  ~Worker() override;

  // For those who build handlers.
  [[nodiscard]] core::Reactor& reactor() { return core_.reactor(); }
  [[nodiscard]] core::Mailbox& mailbox() { return core_.mailbox(); }
  [[nodiscard]] core::BlockingPool& threads() { return threads_; }
  [[nodiscard]] core::MeshPort& mesh() { return core_.mesh(); }
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
  // Precondition: as of the first plan.
  void build_next(std::shared_ptr<const Plan> plan);
  // `keys`: of its policies, which may be newer than those of the plan.
  void serve_next(const std::vector<std::shared_ptr<const gateway::jwt::KeySet>>& keys);
  void forget_next() { next_.reset(); }
  // Earlier sites that answers still need; beyond them those of the oldest are cut.
  static constexpr std::size_t most_earlier = 8;
  // Of routes, by id: those of earlier sites too.
  [[nodiscard]] const std::vector<std::string>& route_names() const { return site_->plan()->names; }

  // This core's connections to a database of the site that is served, or of the next one; null: neither has it.
  [[nodiscard]] std::shared_ptr<sql::Database> database_of(const Plan::Database* database) const;
  // What a resident table is from now on. Of one that is gone nobody hears.
  void publish(const api::resident::Plan* plan, const api::resident::Edition& edition);
  // Answers that are still sent of a table which the resident serves no more.
  void cut_answers_of(const api::resident::Plan* plan, const api::resident::Table* table);
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
    exchange.pin.hold(*site_);
    return site_->dispatcher().dispatch(exchange);
  }
  void set_server_options(const Site& site);
  // Nothing needs the site any more.
  void unpinned(Site& site);
  core::Task<void> give_memory_back();
  void cut_oldest();
  // What `get` finds, other than null, in a site that is served, is built to be, or still answers.
  template <class Get>
  [[nodiscard]] auto find(Get get) const -> decltype(get(std::declval<const Site&>()));
  // Adds counters of what is gone.
  void count_ended(Readings last);
  core::Task<void> keep_for_cancels(std::shared_ptr<sql::Database> database);
  // Until it has written all, or cannot.
  core::Task<void> end_log(std::shared_ptr<RunningRequestLog> log);

  core::Core& core_;
  core::BlockingPool& threads_;
  http::websocket::Echo echo_;
  RequestMetrics requests_;
  Redaction redaction_;  // of the access log
  std::optional<AccessLog> access_log_;
  const Descriptors descriptors_;
  std::uint16_t https_port_ = 443;
  Readings ended_;  // what sites that have ended had counted
  std::vector<std::shared_ptr<RunningRequestLog>> ending_logs_;
  std::vector<std::unique_ptr<Site>> earlier_;
  std::unique_ptr<Site> site_;
  std::unique_ptr<Site> next_;
  http::Pin serving_{*site_};  // so that the site which is served is never let go of
  http::Server server_;
  core::TaskGroup tasks_;
  bool draining_ = false;
};

}  // namespace sluice::app
