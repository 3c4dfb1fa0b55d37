#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "app/plan.h"
#include "base/reading.h"
#include "gateway/policy.h"
#include "http/compress/compression.h"
#include "http/pin.h"
#include "http/redirect.h"
#include "http/router.h"

namespace sluice::app {

class Worker;

// What one core serves of one configuration: the handlers of its routes, and what stands in front of them. Exchanges
// pin it, so that it lasts as long as their answers do.
class Site final : public http::Pinned {
 public:
  // `previous`: of which it takes over the policies and the compression that are the same, with what they remember; may
  // be null.
  Site(Worker& worker, std::shared_ptr<const Plan> plan, const Site* previous = nullptr);
  ~Site();

  // Adds the routes. Throws what cannot be served. Precondition: the worker has what they ask for.
  void build();
  [[nodiscard]] const std::shared_ptr<const Plan>& plan() const { return plan_; }
  // Whom requests come to first.
  [[nodiscard]] http::Dispatcher& dispatcher() {
    return redirect_ ? static_cast<http::Dispatcher&>(*redirect_) : router_;
  }
  // Where requests without TLS are sent to, if they are.
  void set_https_port(std::uint16_t port) {
    if (redirect_) redirect_->set_port(port);
  }

  // For the routes, while they are built.
  [[nodiscard]] Worker& worker() { return worker_; }
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
  std::vector<std::shared_ptr<gateway::Policy>> policies_;  // by index in its options
  std::vector<std::unique_ptr<http::Handler>> handlers_;
  std::vector<std::function<Readings()>> counting_;
  const std::shared_ptr<http::compress::Compression> compression_;  // null: off
  http::Router router_;
  std::optional<http::HttpsRedirect> redirect_;  // in front of them, where it is asked for
};

}  // namespace sluice::app
