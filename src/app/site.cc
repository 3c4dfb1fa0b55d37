#include "app/site.h"

#include <stdexcept>

#include "app/worker.h"

namespace sluice::app {

Site::Site(Worker& worker, const Plan& plan) : worker_(worker), plan_(plan) {
  if (!plan.options.compression.codings.empty()) {
    compression_ = std::make_unique<http::compress::Compression>(router_, plan.options.compression, worker.reactor(),
                                                                 worker.mailbox(), worker.threads());
    count(*compression_);
  }
  const auto& tls = plan.options.server.tls;
  if (tls && tls->redirect.value) redirect_.emplace(compressed());
}

void Site::build() {
  for (const auto& route : plan_.routes) route->build(*this);
}

http::Policy* Site::policy(const std::vector<Located<std::string>>& use) {
  std::vector<http::Policy*> policies;
  for (const auto& name : use) {
    const auto index = plan_.options.find_policy(name.value);
    // A route is never served without what it asks for.
    if (!index) throw std::runtime_error("there is no policy \"" + name.value + "\"");
    policies.push_back(&worker_.policy(*index));
  }
  if (policies.empty()) return nullptr;
  if (policies.size() == 1) return policies.front();
  return chains_.emplace_back(std::make_unique<gateway::Chain>(std::move(policies))).get();
}

void Site::add(Plan::RouteId id, http::Router::Route route, const std::vector<Located<std::string>>& use) {
  route.id = id;
  route.policy = policy(use);
  if (!router_.add(route)) throw std::runtime_error("two routes for the path " + plan_.names[id]);
}

Readings Site::readings() const {
  Readings all;
  for (const auto& counted : counting_) append(all, counted());
  return all;
}

}  // namespace sluice::app
