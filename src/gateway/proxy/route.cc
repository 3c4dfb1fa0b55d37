#include <algorithm>

#include "gateway/proxy/options.h"

namespace sluice::gateway {

std::string RouteOptions::check_method(std::string_view text) {
  const bool is_capital = std::ranges::none_of(text, [](char c) { return c >= 'a' && c <= 'z'; });
  const bool is_excluded = text == "HEAD" || text == "TRACE" || text == "CONNECT";
  const bool is_method = http::is_token(text) && is_capital && !is_excluded;
  return is_method ? "" : "must be a method in capital letters, but not HEAD (which goes with GET), TRACE or CONNECT";
}

std::string RouteOptions::check_split_by(std::string_view text) {
  const auto key = HashKey::parse(text);
  const bool is_known = key && (key->kind == HashKey::Kind::header || key->kind == HashKey::Kind::cookie);
  return is_known ? "" : "must be \"header.NAME\" or \"cookie.NAME\"";
}

std::string RouteOptions::check_upgrade(std::string_view text) {
  const std::string_view name = text.substr(0, text.find('/'));
  if (!http::is_token(name) || (name != text && !http::is_token(text.substr(name.size() + 1)))) {
    return "must be a protocol, as \"websocket\" is";
  }
  for (const std::string_view carrier : {"h2c", "h2", "http", "tls"}) {
    if (http::same_name(name, carrier)) return "must be a protocol that carries no HTTP requests";
  }
  return "";
}

std::vector<http::Condition> RouteOptions::conditions() const {
  std::vector<http::Condition> all;
  const auto add = [&](http::Condition::Of of, const std::vector<Named<std::string>>& wanted) {
    for (const auto& [name, value] : wanted) {
      all.push_back({of, name.value, value == "*" ? std::nullopt : std::optional(value)});
    }
  };
  add(http::Condition::Of::field, headers);
  add(http::Condition::Of::query, query);
  return all;
}

std::vector<http::Method> RouteOptions::taken_methods() const {
  using http::Method;
  std::vector<Method> taken{Method::get, Method::post, Method::put, Method::patch, Method::delete_, Method::options};
  if (!methods.empty()) {
    taken.clear();
    for (const auto& method : methods) {
      const Method known = http::parse_method(method.value);
      if (known != Method::other) taken.push_back(known);
    }
  }
  if (passes_on() && (methods.empty() || !other_methods().empty())) taken.push_back(Method::other);
  // A WebSocket over HTTP/2 (RFC 8441) uses CONNECT, over HTTP/1.1 it uses GET.
  if (passes_on() && std::ranges::find(taken, Method::get) != taken.end()) {
    taken.push_back(Method::connect);
  }
  return taken;
}

std::vector<std::string> RouteOptions::other_methods() const {
  std::vector<std::string> others;
  for (const auto& method : methods) {
    if (http::parse_method(method.value) == http::Method::other) others.push_back(method.value);
  }
  return others;
}

bool RouteOptions::passes_to(std::string_view upstream_name) const {
  if (upstream && upstream->value == upstream_name) return true;
  return std::ranges::any_of(split, [&](const auto& share) { return share.name.value == upstream_name; });
}

}  // namespace sluice::gateway
