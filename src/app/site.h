#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "app/binding.h"
#include "app/log/request_log.h"
#include "app/plan.h"
#include "core/alarm.h"
#include "core/here.h"
#include "gateway/proxy/path_change.h"
#include "http/known_hosts.h"
#include "http/redirect.h"
#include "http/router.h"

namespace sluice::app {

// One generation of the configuration on one core: a router, the bindings behind it, and the parts that they use. An
// exchange needs the site only to be routed; after that it has its binding. So a site is destroyed as soon as another
// one has replaced it.
class Site {
 public:
  // Throws if something cannot be opened. `previous`: the site whose unchanged parts are taken over with their state;
  // may be null. `released`: as for Binding.
  Site(const core::Here& here, core::Alarm& released, std::shared_ptr<const Plan> plan, const Site* previous = nullptr);
  Site(const Site&) = delete;
  ~Site();

  // Adds the routes. Throws if one cannot be served.
  void build();
  // Called when this site becomes the one that is served: applies its plan's options to the parts that it has taken
  // over.
  void serve();
  [[nodiscard]] const std::shared_ptr<const Plan>& plan() const { return plan_; }
  // The dispatcher that requests come to first.
  [[nodiscard]] http::Handler& dispatcher() { return *dispatcher_; }
  // The target port if requests without TLS are redirected.
  void set_https_port(std::uint16_t port) {
    if (redirect_) redirect_->set_port(port);
  }
  [[nodiscard]] const std::shared_ptr<http::AnswerFields>& answer_fields() const { return answer_fields_; }

  // Adds one route while the site is built. The parts that it returns live as long as the route's binding.
  class Builder {
   public:
    // `shape`: one of the route's.
    Builder(Site& site, const Route& route, const Shape& shape);
    [[nodiscard]] core::Reactor& reactor() { return site_.here_.reactor; }
    // Precondition: the plan has the component.
    template <class C, class P>
    [[nodiscard]] P& part(const ComponentOf<C, P>& component) {
      auto part = site_.parts_.find(&component);
      P& found = *part;
      binding_->keep(std::move(part));
      return found;
    }
    [[nodiscard]] std::unique_ptr<http::Handler> proxy_to(const UpstreamComponent& upstream,
                                                          std::shared_ptr<const Plan::Proxied> route,
                                                          const gateway::PathChange* change);
    // The filters of a route that uses these policies, in the order in which they run.
    [[nodiscard]] http::Binding::Filters filters(const std::vector<Located<std::string>>& use) {
      return site_.filters(use);
    }
    [[nodiscard]] http::Handler* own(std::unique_ptr<http::Handler> handler) {
      return binding_->own(std::move(handler));
    }
    // `handler_of`: called for each method of the shape; never null. Throws if another route has the path.
    void add(const std::function<http::Handler*(http::Method)>& handler_of);
    // The same handler for all methods of the shape.
    void add(http::Handler* handler) {
      add([=](http::Method) { return handler; });
    }

   private:
    Site& site_;
    const Shape& shape_;
    const std::shared_ptr<Binding> binding_;
  };

  [[nodiscard]] const std::shared_ptr<RunningRequestLog>& request_log() const { return request_log_; }  // null: off
  // Ends streams, WebSocket connections and tunnels, except those of parts that `next` has too. At shutdown `next` is
  // null; then only the streams end here, because the server ends all connections.
  void drain_endless(const Site* next);

  [[nodiscard]] const std::vector<std::shared_ptr<Binding>>& bindings() const { return bindings_; }
  [[nodiscard]] const Parts& parts() const { return parts_; }

 private:
  [[nodiscard]] http::Binding::Filters everywhere() const;
  [[nodiscard]] http::Binding::Filters filters(const std::vector<Located<std::string>>& use) const;

  const core::Here here_;
  core::Alarm& released_;
  const std::shared_ptr<const Plan> plan_;
  const std::uint64_t generation_;
  const Parts parts_;
  std::shared_ptr<RunningRequestLog> request_log_;
  const std::shared_ptr<http::AnswerFields> answer_fields_;
  std::vector<std::shared_ptr<Binding>> bindings_;  // the first is for requests without a route
  http::Router router_;
  std::optional<http::HttpsRedirect> redirect_;  // in front of the routes, if [server] asks for it
  std::optional<http::KnownHosts> hosts_;        // in front of all
  http::Handler* dispatcher_ = &router_;
};

}  // namespace sluice::app
