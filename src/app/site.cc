#include "app/site.h"

#include <stdexcept>

#include "app/config/difference.h"
#include "app/worker.h"

namespace sluice::app {

namespace {

std::shared_ptr<http::compress::Compression> make_compression(Worker& worker, const Options& options) {
  if (options.compression.codings.empty()) return nullptr;
  return std::make_shared<http::compress::Compression>(options.compression, worker.reactor(), worker.mailbox(),
                                                       worker.threads());
}

}  // namespace

Site::Site(Worker& worker, std::shared_ptr<const Plan> plan, const Site* previous)
    : worker_(worker),
      plan_(std::move(plan)),
      compression_(
          previous != nullptr &&
                  config::first_difference(previous->plan_->options.compression, plan_->options.compression).empty()
              ? previous->compression_
              : make_compression(worker, plan_->options)),
      router_(compression_ ? std::vector<http::Filter*>{compression_.get()} : std::vector<http::Filter*>{}) {
  const Options& options = plan_->options;
  for (std::size_t i = 0; i < options.policies.size(); ++i) {
    const auto& policy = options.policies[i];
    const auto before = previous != nullptr ? previous->plan_->options.find_policy(policy.name.value) : std::nullopt;
    if (before && config::first_difference(previous->plan_->options.policies[*before].value, policy.value).empty()) {
      policies_.push_back(previous->policies_[*before]);
    } else {
      policies_.push_back(gateway::make_policy(policy.value, plan_->keys[i], worker.reactor()));
    }
  }
  const auto& tls = options.server.tls;
  if (tls && tls->redirect.value) redirect_.emplace(router_);
}

Site::~Site() = default;

void Site::unpinned() { worker_.unpinned(*this); }

void Site::build() {
  for (const auto& route : plan_->routes) route->build(*this);
}

std::vector<http::Filter*> Site::filters(const std::vector<Located<std::string>>& use) {
  std::vector<http::Filter*> filters;
  for (const auto& name : use) {
    const auto index = plan_->options.find_policy(name.value);
    // A route is never served without what it asks for.
    if (!index) throw std::runtime_error("there is no policy \"" + name.value + "\"");
    // CORS comes first: it answers preflights, and what other policies refuse carries its fields.
    const bool first = plan_->options.policies[*index].value.type.value == gateway::PolicyType::cors;
    filters.insert(first ? filters.begin() : filters.end(), policies_[*index].get());
  }
  return filters;
}

void Site::add(Plan::RouteId id, http::Router::Route route, const std::vector<Located<std::string>>& use) {
  route.id = id;
  route.filters = filters(use);
  if (!router_.add(route)) throw std::runtime_error("two routes for the path " + plan_->names[id]);
}

Readings Site::readings() const {
  Readings all;
  for (const auto& counted : counting_) append(all, counted());
  return all;
}

Readings Site::shared_readings(std::set<const void*>& counted) const {
  Readings all;
  if (compression_ && counted.insert(compression_.get()).second) append(all, compression_->counters().readings());
  for (std::size_t i = 0; i < policies_.size(); ++i) {
    if (!counted.insert(policies_[i].get()).second) continue;
    append(all, policies_[i]->readings(), label("policy", plan_->options.policies[i].name.value));
  }
  return all;
}

void Site::set_keys(const std::vector<std::shared_ptr<const gateway::jwt::KeySet>>& keys) {
  for (std::size_t i = 0; i < policies_.size(); ++i) policies_[i]->set_keys(keys[i]);
}

}  // namespace sluice::app
