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

// The part of one configuration that one core serves: databases, tables, feeds, the handlers of the routes, and the
// filters in front of them. Exchanges pin it, so it lives until their answers have been sent.
class Site final : public http::Pinned {
 public:
  // Throws if something cannot be opened. `previous`: the site whose unchanged parts are taken over with their state;
  // may be null.
  Site(Worker& worker, std::shared_ptr<const Plan> plan, const Site* previous = nullptr);
  ~Site();

  // Adds the routes. Throws if one cannot be served.
  void build();
  // Called when this site begins to be served: applies its plan's options to the parts that it has taken over.
  void serve();
  [[nodiscard]] const std::shared_ptr<const Plan>& plan() const { return plan_; }
  // The dispatcher that requests come to first.
  [[nodiscard]] http::Handler& dispatcher() { return *dispatcher_; }
  // The target port if requests without TLS are redirected.
  void set_https_port(std::uint16_t port) {
    if (redirect_) redirect_->set_port(port);
  }

  // The following are for routes while they are built.
  [[nodiscard]] Worker& worker() { return worker_; }
  // By index in the options.
  [[nodiscard]] sql::Database& database(std::size_t index) { return *databases_[index]; }
  [[nodiscard]] TroubleLog* trouble(std::size_t database) { return &plan_->databases[database]->trouble; }
  [[nodiscard]] TroubleLog* write_trouble(std::size_t database) { return &plan_->databases[database]->write_trouble; }
  [[nodiscard]] files::Store& store(std::string_view name) { return *stores_[*plan_->options.find_store(name)]; }
  [[nodiscard]] const std::shared_ptr<gateway::Upstream>& upstream(std::size_t index) const {
    return upstreams_[index];
  }
  [[nodiscard]] http::Handler* own(std::unique_ptr<http::Handler> handler) {
    return handlers_.emplace_back(std::move(handler)).get();
  }
  // The filters of a route that uses these policies, in the order in which they run.
  [[nodiscard]] std::vector<std::shared_ptr<http::Filter>> filters(const std::vector<Located<std::string>>& use);
  void add(Plan::RouteId id, http::Router::Route route, const std::vector<Located<std::string>>& use);
  // Adds an object with counters, such as a handler.
  template <class Counting>
  void count(const Counting& counting) {
    counting_.emplace_back([&counting] { return counting.counters().readings(); });
  }

  // The object that serves this part of the plan; null if the site has none. Sites may share the object.
  [[nodiscard]] std::shared_ptr<api::changes::Feed> feed(const Plan::Feed* feed) const;
  [[nodiscard]] std::shared_ptr<http::websocket::Endpoint> websocket(const Plan::WebSocket* websocket) const;
  [[nodiscard]] std::shared_ptr<api::resident::Resident> resident(const api::resident::Plan* resident) const;
  [[nodiscard]] const std::shared_ptr<RunningRequestLog>& request_log() const { return request_log_; }  // null: off
  // By index in the options.
  [[nodiscard]] const std::vector<std::shared_ptr<sql::Database>>& databases() const { return databases_; }
  // Ends streams, WebSocket connections and tunnels, except those of parts that `next` has too. At shutdown `next` is
  // null; then only the streams end here, because the server ends all connections.
  void drain_endless(const Site* next);

  // The readings of its handlers.
  [[nodiscard]] Readings readings() const;
  // The readings of parts that other sites may share, except parts in `counted`. Adds the parts to `counted`.
  [[nodiscard]] Readings shared_readings(std::set<const void*>& counted) const;
  // By index in the plan.
  [[nodiscard]] const std::vector<std::shared_ptr<gateway::jwt::KeySource>>& key_sources() const {
    return key_sources_;
  }
  // `keys`: by policy of the plan, for requests from now on.
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
  std::vector<std::shared_ptr<gateway::jwt::KeySource>> key_sources_;  // by index in the plan
  std::vector<std::shared_ptr<gateway::Policy>> policies_;             // by index in its options
  std::vector<std::unique_ptr<http::Handler>> handlers_;
  std::vector<std::function<Readings()>> counting_;
  const std::shared_ptr<http::compress::Compression> compression_;  // null: off
  http::Router router_;
  std::optional<http::HttpsRedirect> redirect_;  // in front of the routes, if [server] asks for it
  http::Handler* dispatcher_ = &router_;
};

}  // namespace sluice::app
