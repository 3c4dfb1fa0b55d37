#include "app/routes/gateway/check_route.h"

#include <algorithm>

#include "app/config/text.h"
#include "base/contains.h"
#include "gateway/proxy/path_change.h"
#include "gateway/proxy/redirect.h"
#include "http/exchange.h"
#include "http/router.h"

namespace sluice::app::config {

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
    if (!route.passes_on() && http::parse_method(method.value) == http::Method::other) {
      complain(method.position, fmt::format("only a request to an upstream may have the method {}", method.value));
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

void check_route(const Checks& checks, const gateway::RouteOptions& route, const http::Pattern& pattern) {
  const Complain& complain = checks.complain;
  check_conditions(route, complain);
  const int answers = static_cast<int>(route.upstream.has_value()) + static_cast<int>(!route.split.empty()) +
                      static_cast<int>(route.redirect.has_value()) + static_cast<int>(route.respond.has_value());
  if (answers != 1) {
    complain(route.position, answers == 0 ? "this route has no answer" : "this route has more than one answer",
             "a route has one of \"upstream\", \"split\", \"redirect\" and \"respond\"");
  }
  if (route.upstream) checks.check_upstream(*route.upstream);
  std::uint64_t sum = 0;
  for (const auto& [name, weight] : route.split) {
    checks.check_upstream(name);
    if (weight > 1'000'000) complain(name.position, "a share is at most 1000000");
    sum += weight;
  }
  if (!route.split.empty() && sum == 0) complain(route.split[0].name.position, "no upstream has a share");
  if (route.split_by && route.split.empty()) complain(route.split_by->position, "\"split_by\" is for \"split\"");
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
  if (route.timeout.position.line != 0 && !route.passes_on()) {
    complain(route.timeout.position, "\"timeout\" is for requests to an upstream");
  }
  if (route.buffer_request.position.line != 0 && !route.passes_on()) {
    complain(route.buffer_request.position, "\"buffer_request\" is for requests to an upstream");
  }
  if (!route.upgrade.empty() && route.upgrade[0].position.line != 0 && !route.passes_on()) {
    complain(route.upgrade[0].position, "\"upgrade\" is for requests to an upstream");
  }
  if (route.preserve_host.position.line != 0 && !route.passes_on()) {
    complain(route.preserve_host.position, "only a request to an upstream has a host that can be preserved");
  }
  if (route.slashes.position.line != 0 && !route.passes_on()) {
    complain(route.slashes.position, "\"slashes\" is for requests to an upstream");
  }
  if (route.rewrite_location.position.line != 0 && !route.passes_on()) {
    complain(route.rewrite_location.position, "\"rewrite_location\" is for requests to an upstream");
  }
  if (!route.strip) return;
  if (route.strip->value.ends_with('/')) {
    return complain(route.strip->position, "must not end with \"/\"");
  }
  const auto stripped = http::Pattern::parse(route.strip->value);
  const bool begins =
      stripped && stripped->names().empty() && stripped->segments.size() <= pattern.segments.size() &&
      std::ranges::equal(stripped->segments, std::span(pattern.segments).first(stripped->segments.size()), {},
                         &http::Pattern::Segment::text, &http::Pattern::Segment::text) &&
      std::ranges::all_of(std::span(pattern.segments).first(stripped->segments.size()),
                          [](const auto& one) { return one.kind == http::Pattern::Kind::literal; });
  if (!begins) complain(route.strip->position, "the route's path does not begin with these segments");
}

}  // namespace sluice::app::config
