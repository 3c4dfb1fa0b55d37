#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "api/changes/feed.h"
#include "api/resident/resident.h"
#include "app/plan.h"
#include "app/request_log.h"
#include "base/log.h"
#include "base/reading.h"
#include "files/store.h"
#include "gateway/policy.h"
#include "gateway/proxy/upstream.h"
#include "http/compress/compression.h"
#include "http/pin.h"
#include "http/redirect.h"
#include "http/router.h"
#include "http/websocket/endpoint.h"
#include "sql/database.h"

namespace sluice::app {

class Worker;

// What one core serves of one configuration: databases, tables and feeds, the handlers of the routes, and what stands
// in front of them. Exchanges pin it, so that it lasts as long as their answers do.
class Site final : public http::Pinned {
 public:
  // Throws what cannot be opened. `previous`: of which it takes over what is the same, with all that it remembers; may
  // be null.
  Site(Worker& worker, std::shared_ptr<const Plan> plan, const Site* previous = nullptr);
  ~Site();

  // Adds the routes. Throws what cannot be served.
  void build();
  [[nodiscard]] const std::shared_ptr<const Plan>& plan() const { return plan_; }
  // Whom requests come to first.
  [[nodiscard]] http::Dispatcher& dispatcher() { return *dispatcher_; }
  // Where requests without TLS are sent to, if they are.
  void set_https_port(std::uint16_t port) {
    if (redirect_) redirect_->set_port(port);
  }

  // For the routes, while they are built.
  [[nodiscard]] Worker& worker() { return worker_; }
  // By index in the options.
  [[nodiscard]] sql::Database& database(std::size_t index) { return *databases_[index]; }
  [[nodiscard]] TroubleLog* trouble(std::size_t database) { return &plan_->databases[database]->trouble; }
  [[nodiscard]] files::Store& store(std::string_view name) { return *stores_[*plan_->options.find_store(name)]; }
  [[nodiscard]] const std::shared_ptr<gateway::Upstream>& upstream(std::size_t index) const {
    return upstreams_[index];
  }
  [[nodiscard]] http::Handler* own(std::unique_ptr<http::Handler> handler) {
    return handlers_.emplace_back(std::move(handler)).get();
  }
  // What stands in front of a route that uses these policies, in the order in which it is asked.
  [[nodiscard]] std::vector<http::Filter*> filters(const std::vector<Located<std::string>>& use);
  void add(Plan::RouteId id, http::Router::Route route, const std::vector<Located<std::string>>& use);
  // Something that counts, such as a handler.
  template <class Counting>
  void count(const Counting& counting) {
    counting_.emplace_back([&counting] { return counting.counters().readings(); });
  }

  // Of the plan, or null. They are shared with the sites that have the same.
  [[nodiscard]] std::shared_ptr<api::changes::Feed> feed(const Plan::Feed* feed) const;
  [[nodiscard]] std::shared_ptr<http::websocket::Endpoint> websocket(const Plan::WebSocket* websocket) const;
  [[nodiscard]] std::shared_ptr<api::resident::Resident> resident(const api::resident::Plan* resident) const;
  [[nodiscard]] const std::shared_ptr<RunningRequestLog>& request_log() const { return request_log_; }  // null: off
  // By index in the options.
  [[nodiscard]] const std::vector<std::shared_ptr<sql::Database>>& databases() const { return databases_; }
  // Streams and conversations that have no end are to end, except those that `next` (which may be null) has too.
  void drain_endless(const Site* next);

  // Of its handlers.
  [[nodiscard]] Readings readings() const;
  // Of what it may share with other sites, except what is in `counted`; adds that there.
  [[nodiscard]] Readings shared_readings(std::set<const void*>& counted) const;
  // By policy of its plan, for the requests from now on.
  void set_keys(const std::vector<std::shared_ptr<const gateway::jwt::KeySet>>& keys);

 private:
  void unpinned() override;

  Worker& worker_;
  const std::shared_ptr<const Plan> plan_;
  std::vector<std::shared_ptr<sql::Database>> databases_;
  std::vector<std::shared_ptr<files::Store>> stores_;                   // by index in its options
  std::vector<std::shared_ptr<api::changes::Feed>> feeds_;              // by index in the plan
  std::vector<std::shared_ptr<http::websocket::Endpoint>> websockets_;  // by index in the plan
  std::vector<std::shared_ptr<gateway::Upstream>> upstreams_;           // by index in the plan
  std::vector<std::shared_ptr<api::resident::Resident>> residents_;     // by index in the plan
  std::shared_ptr<RunningRequestLog> request_log_;
  std::vector<std::shared_ptr<gateway::Policy>> policies_;  // by index in its options
  std::vector<std::unique_ptr<http::Handler>> handlers_;
  std::vector<std::function<Readings()>> counting_;
  const std::shared_ptr<http::compress::Compression> compression_;  // null: off
  http::Router router_;
  std::optional<http::HttpsRedirect> redirect_;  // in front of them, where it is asked for
  http::Dispatcher* dispatcher_ = &router_;
};

}  // namespace sluice::app
