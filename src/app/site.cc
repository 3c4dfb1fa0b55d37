#include "app/site.h"

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <utility>

#include "base/contains.h"
#include "gateway/proxy/proxy.h"
#include "gateway/proxy/tunnel.h"
#include "http/answer_fields.h"
#include "http/error_pages.h"

namespace sluice::app {

namespace {

std::shared_ptr<http::AnswerFields> make_answer_fields(const ServerOptions& options) {
  http::AnswerFields::List fields;
  for (const auto& header : options.headers) fields.emplace_back(header.name.value, header.value.value.value);
  http::AnswerFields::List secure;
  if (options.tls && options.tls->hsts > Duration{}) {
    const auto age = std::chrono::duration_cast<std::chrono::seconds>(options.tls->hsts);
    secure.emplace_back("Strict-Transport-Security", "max-age=" + std::to_string(age.count()));
  }
  auto made = std::make_shared<http::AnswerFields>(options.server_header, fields, secure);
  made->show_errors(std::make_shared<http::ErrorPages>(options.own_error_pages));
  return made;
}

}  // namespace

Site::Site(const core::Here& here, core::Alarm& released, std::shared_ptr<const Plan> plan, const Site* previous)
    : here_(here),
      released_(released),
      plan_(std::move(plan)),
      generation_(previous != nullptr ? previous->generation_ + 1 : 1),
      parts_(plan_->components, previous != nullptr ? &previous->parts_ : nullptr, here),
      answer_fields_(make_answer_fields(plan_->options.server)),
      bindings_{std::make_shared<Binding>(released, generation_, Plan::RouteId{0}, nullptr, everywhere(),
                                          http::Binding::Filters(), answer_fields_)},
      router_(bindings_.front()) {
  const Options& options = plan_->options;
  if (const auto& log = plan_->request_log) {
    const auto& database = *plan_->databases[options.index_of_database(log->options.database.value)];
    request_log_ = previous != nullptr && log == previous->plan_->request_log
                       ? previous->request_log_
                       : std::make_shared<RunningRequestLog>(log, plan_->names, parts_.find(&database), here.reactor);
  }
  const auto& tls = options.server.tls;
  if (tls && tls->redirect.value) dispatcher_ = &redirect_.emplace(router_, bindings_.front().get());
  if (!options.server.hosts.empty() || options.server.same_origin) {
    std::vector<std::string> hosts;
    for (const auto& host : options.server.hosts) hosts.push_back(host.value);
    dispatcher_ = &hosts_.emplace(std::move(hosts), options.server.same_origin, *dispatcher_, bindings_.front().get());
  }
}

Site::~Site() = default;

void Site::serve() {
  for (std::size_t i = 0; i < plan_->databases.size(); ++i) {
    const sql::DatabaseOptions& options = plan_->options.databases[i].value;
    parts_.find(plan_->databases[i].get())->resize(options.pool, options.wait);
  }
  parts_.serve();
}

void Site::build() {
  for (const auto& route : plan_->routes) route->build(*this);
}

http::Binding::Filters Site::everywhere() const {
  const auto compression = parts_.find(plan_->compression.get());
  return compression ? http::Binding::Filters{compression} : http::Binding::Filters{};
}

http::Binding::Filters Site::filters(const std::vector<Located<std::string>>& use) const {
  http::Binding::Filters filters;
  for (const auto& name : use) {
    const auto index = plan_->options.find_policy(name.value);
    // Never serve a route without its policies.
    if (!index) throw std::runtime_error("there is no policy \"" + name.value + "\"");
    // CORS comes first, so that it can answer preflight requests and add its fields to refusals by other policies.
    const bool first = plan_->options.policies[*index].value.kind().is_first;
    filters.insert(first ? filters.begin() : filters.end(), parts_.find(plan_->policies[*index].get()));
  }
  return filters;
}

Site::Builder::Builder(Site& site, const Route& route, const Shape& shape)
    : site_(site),
      shape_(shape),
      binding_(std::make_shared<Binding>(site.released_, site.generation_, shape.id, route.shared_from_this(),
                                         site.everywhere(), site.filters(shape.use), site.answer_fields_,
                                         shape.is_logged)) {
  const auto name = &Located<std::string>::value;
  for (const auto& [method, use] : shape.of_methods) {
    if (std::ranges::equal(use, shape.use, {}, name, name)) continue;
    binding_->set_filters(method, site.everywhere(), site.filters(use));
  }
}

std::unique_ptr<http::Handler> Site::Builder::proxy_to(const UpstreamComponent& upstream,
                                                       std::shared_ptr<const Plan::Proxied> route,
                                                       const gateway::PathChange* change) {
  const ServerOptions& server = site_.plan_->options.server;
  const bool is_default = http::same_name(server.client_header.value, ServerOptions::default_client_header);
  const std::string client_field = is_default ? std::string() : server.client_header.value;
  gateway::ProxyOptions options{.change = change,
                                .ours = site_.answer_fields_.get(),
                                .preserve_host = route->options.preserve_host.value,
                                .keeps_slashes = route->options.slashes.value == gateway::Slashes::keep,
                                .rewrite_location = route->options.rewrite_location.value,
                                .timeout = route->options.timeout.value,
                                .buffer_request = route->options.buffer_request.value,
                                .upgrade = route->options.upgrade,
                                .client_field = client_field,
                                .codings = site_.plan_->options.compression.codings};
  return std::make_unique<gateway::Proxy>(site_.parts_.find(&upstream), upstream.shared, std::move(route),
                                          std::move(options));
}

void Site::Builder::add(const std::function<http::Handler*(http::Method)>& handler_of) {
  const auto tell = [&](const Shape::Use& use) {
    for (const auto& name : use) {
      const auto& policy = site_.plan_->policies[*site_.plan_->options.find_policy(name.value)];
      site_.parts_.find(policy.get())->used_by(shape_.id, shape_.pattern);
    }
  };
  tell(shape_.use);
  for (const auto& [method, use] : shape_.of_methods) tell(use);
  http::Router::Route route = shape_.route(handler_of);
  route.binding = binding_;
  if (!site_.router_.add(route)) throw std::runtime_error("two routes for the path " + site_.plan_->names[shape_.id]);
  site_.bindings_.push_back(binding_);
}

void Site::drain_endless(const Site* next) {
  // At shutdown, WebSockets and tunnels are cut with the server.
  if (next == nullptr) return parts_.drain();
  for (const auto& part : parts_.all()) {
    if (!next->parts_.has(part)) part.retire();
  }
  for (const auto& component : plan_->all<UpstreamComponent>()) {
    const auto upstream = parts_.find(component.get());
    const bool stays = contains(next->parts_.all(), upstream, &Parts::One::object);
    upstream->tunnels.cut(here_.reactor.now() + plan_->options.server.grace, [&](const gateway::Tunnel& tunnel) {
      return !stays || tunnel.server().is_gone || !next->plan_->has_proxied(tunnel.route());
    });
  }
}

}  // namespace sluice::app
