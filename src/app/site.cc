#include "app/site.h"

#include <stdexcept>

#include "app/worker.h"

namespace sluice::app {

namespace {

std::unique_ptr<http::compress::Compression> make_compression(Worker& worker, const Options& options) {
  if (options.compression.codings.empty()) return nullptr;
  return std::make_unique<http::compress::Compression>(options.compression, worker.reactor(), worker.mailbox(),
                                                       worker.threads());
}

}  // namespace

Site::Site(Worker& worker, const Plan& plan)
    : worker_(worker),
      plan_(plan),
      compression_(make_compression(worker, plan.options)),
      router_(compression_ ? std::vector<http::Filter*>{compression_.get()} : std::vector<http::Filter*>{}) {
  if (compression_) count(*compression_);
  const auto& tls = plan.options.server.tls;
  if (tls && tls->redirect.value) redirect_.emplace(router_);
}

void Site::build() {
  for (const auto& route : plan_.routes) route->build(*this);
}

std::vector<http::Filter*> Site::filters(const std::vector<Located<std::string>>& use) {
  std::vector<http::Filter*> filters;
  for (const auto& name : use) {
    const auto index = plan_.options.find_policy(name.value);
    // A route is never served without what it asks for.
    if (!index) throw std::runtime_error("there is no policy \"" + name.value + "\"");
    // CORS comes first: it answers preflights, and what other policies refuse carries its fields.
    const bool first = plan_.options.policies[*index].value.type.value == gateway::PolicyType::cors;
    filters.insert(first ? filters.begin() : filters.end(), &worker_.policy(*index));
  }
  return filters;
}

void Site::add(Plan::RouteId id, http::Router::Route route, const std::vector<Located<std::string>>& use) {
  route.id = id;
  route.filters = filters(use);
  if (!router_.add(route)) throw std::runtime_error("two routes for the path " + plan_.names[id]);
}

Readings Site::readings() const {
  Readings all;
  for (const auto& counted : counting_) append(all, counted());
  return all;
}

}  // namespace sluice::app
