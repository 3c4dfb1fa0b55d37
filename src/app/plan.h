#pragma once

#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "app/components/components.h"
#include "app/log/request_log.h"
#include "app/options.h"
#include "app/prepare/io.h"
#include "app/routes/route.h"
#include "base/contains.h"
#include "gateway/jwt/keys.h"
#include "gateway/proxy/upstream.h"
#include "login/keys.h"
#include "net/tls/context.h"

namespace sluice::app {

struct Recording;

// A configuration made ready to serve: paths are parsed, and databases have described the statements. Shared by all
// cores. Immutable once the cores have it; the shared parts of databases and the first rows of tables are set before.
struct Plan {
  // The id of a route is its index in `names`.
  using RouteId = Route::Id;
  using Database = DatabaseComponent;
  using Feed = FeedComponent;
  using Resident = ResidentComponent;
  // A route to an upstream. A reload keeps its tunnels if it and its policies are unchanged.
  struct Proxied {
    gateway::RouteOptions options;
    Policies policies;
  };

  // Adds the component, or that of `before` which is the same, and returns it. `before` may be null. A component comes
  // after those that its parts need.
  template <class C>
  std::shared_ptr<C> add(std::shared_ptr<C> made, const Plan* before) {
    return add_component(components, before != nullptr ? &before->components : nullptr, std::move(made));
  }
  template <class C>
  [[nodiscard]] std::vector<std::shared_ptr<C>> all() const {
    std::vector<std::shared_ptr<C>> all;
    for (const auto& component : components) {
      if (auto one = std::dynamic_pointer_cast<C>(component)) all.push_back(std::move(one));
    }
    return all;
  }
  [[nodiscard]] bool has(const Component* component) const {
    return contains(components, component, &std::shared_ptr<Component>::get);
  }
  // Null if no component has the name.
  [[nodiscard]] std::shared_ptr<UpstreamComponent> upstream(std::string_view name) const;
  [[nodiscard]] std::shared_ptr<StoreComponent> store(std::string_view name) const;

  // Null if no policy has the file.
  [[nodiscard]] std::shared_ptr<gateway::jwt::Revocations> revocations_at(std::string_view path) const;
  // The name of a route, for metrics and logs, is its pattern as written. A name of the previous plan keeps its id.
  [[nodiscard]] RouteId add_name(std::string name);
  // Returns a new prefix that distinguishes a feed's event ids from those of all other feeds.
  [[nodiscard]] static std::string new_boot();
  // `before`: the plan whose route is taken over if it is the same; may be null.
  std::shared_ptr<const Proxied> add_proxied(Proxied proxied, const Plan* before);
  [[nodiscard]] bool has_proxied(const void* wanted) const;
  [[nodiscard]] Policies policies_of(const std::vector<Located<std::string>>& use) const;

  Options options;
  std::vector<std::shared_ptr<Route>> routes;
  std::vector<std::string> names = {""};  // by route id, also of earlier configurations; [0]: requests without a route
  std::unordered_map<std::string, RouteId> ids;  // of names; add_name() fills it
  std::vector<bool> is_served = {true};          // by route id; ids beyond its end are not served
  bool names_are_full = false;                   // a route got no id because all are used
  Components components;
  std::vector<std::shared_ptr<Database>> databases;        // those of the components, by index in the options
  std::vector<std::shared_ptr<PolicyComponent>> policies;  // likewise
  std::vector<std::shared_ptr<gateway::jwt::Revocations>> revocations;  // each file once
  std::shared_ptr<CompressionComponent> compression;                    // null: off
  std::vector<std::shared_ptr<const Recording>> recordings;  // by index in the options, for the next plan; null: SQLite
  std::vector<std::shared_ptr<const Proxied>> proxied;
  std::uint64_t most_body = 0;  // bytes: the longest body that a route allows, if above the server's limit
  std::shared_ptr<const RequestLogPlan> request_log;              // null: off
  std::vector<std::shared_ptr<const gateway::jwt::KeySet>> keys;  // by index in options.policies; null: no keys
  std::shared_ptr<const login::Keys> login_keys;                  // null without [login]
  std::shared_ptr<const net::tls::ServerContext> tls;             // null without [server.tls]
  // Of the process, from its start on: a reload keeps them, even if the process may use more or fewer by then.
  unsigned cores = 0;
  Io io;                              // how the cores will wait for sockets
  std::string digest;                 // SHA-256 of the configuration
  std::string masked_text;            // of the configuration, for operators
  std::vector<std::string> secrets;   // the contents of the files of ${file:PATH}
  std::vector<std::string> warnings;  // problems that do not prevent serving
  std::vector<std::string> hints;     // what could be faster; `sluice check` prints them
};

}  // namespace sluice::app
