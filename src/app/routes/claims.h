#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/config/complain.h"
#include "app/options.h"
#include "base/declare.h"
#include "http/router.h"

namespace sluice::app {

// A path that a route of the configuration serves. A kind of route claims its paths, and the checks across kinds look
// at the claims only.
struct Claim {
  std::string path;                                        // a pattern, or the path of a folder
  std::string host;                                        // empty: all hosts
  Position position;                                       // for errors
  const std::vector<Located<std::string>>* use = nullptr;  // the policies in front
  const api::EndpointOptions* endpoint = nullptr;          // whose methods may have other policies; null: none
  std::vector<http::Method> methods = {};                  // empty: all
  std::vector<std::string> other_methods = {};             // of Method::other; empty: all
  std::vector<http::Condition> conditions = {};
  std::string_view apart = {};  // the keys that can tell two claims of this kind with the same path apart; empty: none
  bool folder = false;          // everything below `path` that has no other route
  bool passes_on = false;       // requests are forwarded
  std::string_view upstream = {};  // to this upstream; empty: to none, or to several
  // The upstream gets the path without this prefix. Nothing: `rewrite` makes the path.
  std::optional<std::string_view> strip = "";

  // Set by claims_of().
  std::string_view kind = {};  // "[[endpoint]]"
  http::Pattern pattern = {};
};

// The pattern of everything below a folder.
[[nodiscard]] std::string pattern_below(std::string_view folder);

// The claims of all kinds, without those whose path is invalid. They refer to the options.
[[nodiscard]] std::vector<Claim> claims_of(const Options& options);

// Reports claims of the same path that are for the same requests.
void check_claims(const std::vector<Claim>& claims, const config::Complain& complain);

// Warns of routes that pass requests on without a policy that checks the client, although a neighbour has one: a route
// with the same path for other methods or conditions, the route of `/a` beside the path `/a/{rest...}`, a catch-all
// route that takes `/a/` to the same upstream as the route of `/a`, or a route that reaches the same path of the same
// upstream by another prefix or another host.
[[nodiscard]] std::vector<std::string> warn_of_guards_beside(const Options& options);

// Warns of endpoints that write without a policy that checks the client, although another endpoint that writes has one.
// `public = true` says that it is meant.
[[nodiscard]] std::vector<std::string> warn_of_open_writes(const Options& options);

}  // namespace sluice::app
