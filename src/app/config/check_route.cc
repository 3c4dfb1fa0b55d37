#include "app/config/check_route.h"

#include <algorithm>

#include "app/config/text.h"
#include "base/contains.h"
#include "gateway/proxy/path_change.h"
#include "gateway/redirect.h"
#include "http/exchange.h"
#include "http/router.h"

namespace sluice::app::config {

void check_upstream(const Options& options, std::string_view name, Position position, const Complain& complain) {
  if (options.find_upstream(name)) return;
  std::vector<std::string_view> names;
  for (const auto& upstream : options.upstreams) names.push_back(upstream.name.value);
  complain(position, fmt::format("there is no [[upstream]] called \"{}\"", name), did_you_mean(name, names));
}

namespace {

void check_conditions(const gateway::RouteOptions& route, const Complain& complain) {
  for (const auto& [name, value] : route.headers) {
    if (!http::is_token(name.value)) complain(name.position, "this is no name of a header field");
    if (http::same_name(name.value, "host")) complain(name.position, "the host has a key of its own: host = \"...\"");
  }
  for (std::size_t i = 0; i < route.methods.size(); ++i) {
    const auto& method = route.methods[i];
    const auto first = route.methods.begin();
    if (std::find_if(first, first + static_cast<std::ptrdiff_t>(i), [&](const auto& one) {
          return one.value == method.value;
        }) != first + static_cast<std::ptrdiff_t>(i)) {
      complain(method.position, fmt::format("{} comes twice", method.value));
    }
  }
}

void check_answer(const gateway::RespondOptions& respond, const Complain& complain) {
  const auto check_value = [&](const Located<std::string>& value) {
    const bool is_plain = std::ranges::all_of(value.value, [](char c) { return (c >= ' ' && c != 0x7f) || c == '\t'; });
    if (!is_plain) complain(value.position, "a field's value takes no control characters");
  };
  check_value(respond.type);
  for (const auto& [name, value] : respond.headers) {
    if (!http::is_token(name.value)) complain(name.position, "this is no name of a header field");
    for (const char* ours : {"content-length", "transfer-encoding", "connection", "date", "content-type"}) {
      if (http::same_name(name.value, ours)) complain(name.position, fmt::format("{} is not set here", name.value));
    }
    check_value(value);
  }
}

}  // namespace

void check_route(const Options& options, const gateway::RouteOptions& route, const http::Pattern& pattern,
                 const Complain& complain) {
  check_conditions(route, complain);
  const int answers = static_cast<int>(route.upstream.has_value()) + static_cast<int>(!route.split.empty()) +
                      static_cast<int>(route.redirect.has_value()) + static_cast<int>(route.respond.has_value());
  if (answers != 1) {
    complain(route.position, answers == 0 ? "this route has no answer" : "this route has more than one answer",
             "a route has one of \"upstream\", \"split\", \"redirect\" and \"respond\"");
  }
  if (route.upstream) check_upstream(options, route.upstream->value, route.upstream->position, complain);
  std::uint64_t sum = 0;
  for (const auto& [name, weight] : route.split) {
    check_upstream(options, name.value, name.position, complain);
    if (weight > 1'000'000) complain(name.position, "a share is at most 1000000");
    sum += weight;
  }
  if (!route.split.empty() && sum == 0) complain(route.split[0].name.position, "no upstream has a share");
  if (route.redirect) {
    if (const auto status = route.redirect->status; status.value > 303 && status.value < 307) {
      complain(status.position, "a redirect has the status 301, 302, 303, 307 or 308");
    }
    if (const auto made = gateway::Redirect::make(*route.redirect, pattern.names()); !made) {
      complain(route.redirect->to.position, made.error());
    }
  }
  if (route.respond) check_answer(*route.respond, complain);

  if (route.strip && route.rewrite) {
    complain(route.strip->position, "\"strip\" and \"rewrite\" exclude each other");
  } else if ((route.strip || route.rewrite) && !route.upstream && route.split.empty()) {
    complain(route.strip ? route.strip->position : route.rewrite->match.position,
             "only the path of a request to an upstream can be changed");
  } else if (const auto change = gateway::PathChange::make(route); !change) {
    complain(route.rewrite->match.position, change.error());
  }
  if (!route.strip) return;
  const auto stripped = http::Pattern::parse(route.strip->value);
  const bool begins =
      stripped && stripped->names().empty() && !route.strip->value.ends_with('/') &&
      stripped->segments.size() <= pattern.segments.size() &&
      std::ranges::equal(stripped->segments, std::span(pattern.segments).first(stripped->segments.size()), {},
                         &http::Pattern::Segment::text, &http::Pattern::Segment::text) &&
      std::ranges::all_of(std::span(pattern.segments).first(stripped->segments.size()),
                          [](const auto& one) { return one.kind == http::Pattern::Kind::literal; });
  if (!begins) complain(route.strip->position, "the route's path does not begin with these segments");
}

bool are_alike(const gateway::RouteOptions& one, const gateway::RouteOptions& other) {
  const auto conditions = one.conditions();
  const auto others = other.conditions();
  if (conditions.size() != others.size()) return false;
  const auto methods = other.taken_methods();
  if (std::ranges::none_of(one.taken_methods(), [&](http::Method method) { return contains(methods, method); })) {
    return false;
  }
  return std::ranges::none_of(conditions, [&](const http::Condition& condition) {
    return std::ranges::any_of(others, [&](const http::Condition& its) { return condition.excludes(its); });
  });
}

namespace {

// Finds the [[route]] of a path as the server will. Endpoints, tables, websockets and files compete with routes.
class RouteFinder {
 public:
  explicit RouteFinder(const Options& options) : options_(options) {
    for (const gateway::RouteOptions& route : options.routes) {
      add({.pattern = {}, .host = route.host.value, .conditions = route.conditions()}, route.path.value,
          route.taken_methods());
    }
    const auto compete = [this](const Located<std::string>& host, const std::string& path, bool folder = false) {
      add({.pattern = {}, .host = host.value, .folder = folder}, path, gateway::RouteOptions{}.taken_methods());
    };
    for (const auto& one : options.endpoints) compete(one.host, one.path.value);
    for (const auto& one : options.websockets) compete(one.host, one.path.value);
    for (const auto& one : options.residents) {
      if (one.serve) compete(one.host, "/" + one.name.value);
    }
    for (const auto& one : options.files) {
      compete(one.host, one.path.value + (one.path.value.ends_with('/') ? "" : "/") + "{file...}", true);
    }
  }

  // Returns null if no handler or a handler other than a [[route]] serves the path.
  [[nodiscard]] const gateway::RouteOptions* find(std::string_view host, const std::string& path, http::Method method) {
    http::Exchange exchange;
    exchange.request.method = method;
    exchange.request.authority = host;
    exchange.request.path = exchange.request.segments = path;
    (void)router_.handle(exchange).take();
    const std::size_t id = exchange.request.route;
    return id == 0 || id > options_.routes.size() ? nullptr : &options_.routes[id - 1];
  }

 private:
  struct Nothing final : http::Handler {
    core::Async<http::Response> handle(http::Exchange&) override { return http::Response{}; }
  };

  void add(http::Router::Route route, const std::string& path, const std::vector<http::Method>& methods) {
    ++last_id_;
    auto pattern = http::Pattern::parse(path);
    if (!pattern) return;
    route.pattern = std::move(*pattern);
    route.id = last_id_;
    for (const http::Method method : methods) route.handlers[static_cast<std::size_t>(method)] = &nothing_;
    (void)router_.add(route);
  }

  const Options& options_;
  Nothing nothing_;
  http::Router router_;
  std::uint16_t last_id_ = 0;
};

}  // namespace

std::vector<std::string> warn_of_guards_beside(const Options& options) {
  const auto is_guarded = [&](const gateway::RouteOptions& route) {
    return std::ranges::any_of(route.use, [&](const auto& name) {
      const auto type = options.policies[*options.find_policy(name.value)].value.type.value;
      return gateway::kind_of(type).is_guard && !gateway::kind_of(type).is_limit;
    });
  };
  const auto passes_on = [](const gateway::RouteOptions& route) { return route.upstream || !route.split.empty(); };
  RouteFinder routes(options);
  std::vector<std::string> warnings;
  for (const gateway::RouteOptions& route : options.routes) {
    const auto pattern = http::Pattern::parse(route.path.value);
    if (!pattern || pattern->segments.size() < 2 || !passes_on(route)) continue;
    if (pattern->segments.back().kind != http::Pattern::Kind::rest) continue;
    std::string sample;  // a path that the pattern matches, without its rest
    for (const auto& segment : std::span(pattern->segments).first(pattern->segments.size() - 1)) {
      sample += "/" + (segment.kind == http::Pattern::Kind::literal ? segment.text : "1");
    }
    const std::string host = route.host.value.starts_with("*.") ? "a" + route.host.value.substr(1) : route.host.value;
    const auto* const other = routes.find(host, sample, route.taken_methods().front());
    if (other == nullptr || !passes_on(*other) || is_guarded(route) == is_guarded(*other)) continue;
    const std::string_view path = route.path.value;
    warnings.push_back(fmt::format(
        "requests for \"{}\" go to the route \"{}\", those for \"{}\" to a route of its own: only \"{}\" has a policy "
        "that checks the client",
        path.substr(0, path.rfind('/')), other->path.value, path, (is_guarded(route) ? route : *other).path.value));
  }
  return warnings;
}

}  // namespace sluice::app::config
