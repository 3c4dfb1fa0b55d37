#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/declare.h"
#include "http/router.h"

namespace sluice::app {

// A path that a route serves, and for which requests. Made from the options of the route alone; the checks, the router,
// `sluice explain` and the names of metrics and logs all read it.
struct Shape {
  using Use = std::vector<Located<std::string>>;  // names of policies

  std::string path;                                           // a pattern, or the path of a folder
  std::string host = {};                                      // empty: all hosts
  Position position = {};                                     // for errors
  Use use = {};                                               // the policies in front
  std::vector<http::Method> methods = {http::Method::get};    // GET stands for HEAD too
  std::vector<std::pair<http::Method, Use>> of_methods = {};  // the policies of these methods, instead of `use`
  std::vector<std::string> other_methods = {};                // of Method::other; empty: all
  std::vector<http::Condition> conditions = {};
  std::string_view apart = {};  // the keys that can tell two shapes of this kind with the same path apart; empty: none
  // As in http::Router::Route.
  bool formats = false;
  bool upgrades = false;
  bool folder = false;
  bool passes_on = false;
  bool keeps_slashes = false;
  std::string upstream = {};  // that requests are passed on to; empty: none, or several
  // The upstream gets the path without this prefix. Nothing: `rewrite` makes the path.
  std::optional<std::string> strip = "";

  // Set by shapes_of().
  std::string_view kind = {};  // "[[endpoint]]"
  bool is_logged = true;       // in the access log
  http::Pattern pattern = {};
  std::uint16_t id = 0;  // Set by its Route: index in Plan::names

  [[nodiscard]] const Use& use_of(http::Method method) const {
    if (method == http::Method::head) method = http::Method::get;
    for (const auto& [own, its] : of_methods) {
      if (own == method) return its;
    }
    return use;
  }
  // `handler_of`: called for each of `methods`.
  [[nodiscard]] http::Router::Route route(const std::function<http::Handler*(http::Method)>& handler_of) const {
    http::Router::Route route{.pattern = pattern,
                              .host = host,
                              .conditions = conditions,
                              .other_methods = other_methods,
                              .formats = formats,
                              .upgrades = upgrades,
                              .folder = folder,
                              .passes_on = passes_on,
                              .keeps_slashes = keeps_slashes,
                              .id = id};
    for (const http::Method method : methods) route.handlers[static_cast<std::size_t>(method)] = handler_of(method);
    return route;
  }
};

}  // namespace sluice::app
