#include "app/admin/upstreams.h"

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "app/log/log_text.h"
#include "http/query_string.h"
#include "runtime/admin.h"

namespace sluice::app {
namespace {

constexpr Duration answer_wait = 5s;

// One upstream as one core sees it, or all.
struct UpstreamStatus {
  std::string name;
  std::vector<gateway::Upstream::Status> servers;
};
using Statuses = std::vector<UpstreamStatus>;

Statuses statuses_of(const Worker& worker) {
  Statuses all;
  for (const auto& component : worker.plan().all<UpstreamComponent>()) {
    all.push_back({component->shared->options.name.value, worker.find(component.get())->status()});
  }
  return all;
}

// Returns false if this core does not own the upstream, or no server has the name.
bool drain(const Worker& worker, std::string_view name, const std::string& server, bool is_drained) {
  const auto component = worker.plan().upstream(name);
  return component != nullptr && worker.find(component.get())->drain(server, is_drained);
}

// Adds the numbers of another core. A core that is one reload ahead or behind may have other servers.
void add(Statuses& all, const Statuses& of_core) {
  for (const auto& upstream : of_core) {
    const auto same = std::ranges::find(all, upstream.name, &UpstreamStatus::name);
    if (same == all.end()) continue;
    for (const auto& server : upstream.servers) {
      const auto found = std::ranges::find(same->servers, server.name, &gateway::Upstream::Status::name);
      if (found != same->servers.end()) found->add(server);
    }
  }
}

std::string json_of(const Statuses& all) {
  std::string json = "{\"upstreams\":[";
  for (const auto& upstream : all) {
    json += json.ends_with('[') ? "\n{\"name\":" : ",\n{\"name\":";
    append_log_string(json, upstream.name);
    json += ",\"servers\":[";
    for (const auto& server : upstream.servers) {
      json += json.ends_with('[') ? "\n  {\"server\":" : ",\n  {\"server\":";
      append_log_string(json, server.name);
      json += fmt::format(
          R"(,"state":"{}","weight":{},"backup":{},"requests":{},"failures":{},"in_flight":{},"connections":{}}})",
          server.is_drained ? "drained" : server.state, server.weight, server.is_backup, server.requests,
          server.failures, server.in_flight, server.connections);
    }
    json += "]}";
  }
  return json += "]}\n";
}

}  // namespace

core::Task<http::Response> AdminUpstreams::gather() {
  const Instant deadline = core_.reactor().now() + answer_wait;
  Statuses all;
  for (unsigned i = 0; i < workers_.size(); ++i) {
    const auto of_core =
        co_await core_.mesh().call(i, deadline, [worker = workers_[i]] { return statuses_of(*worker); });
    if (!of_core) co_return http::problem(503, "Core " + std::to_string(i) + " does not answer.");
    if (i == 0) {
      all = *of_core;
    } else {
      add(all, *of_core);
    }
  }
  co_return runtime::text_response("application/json", json_of(all));
}

core::Async<http::Response> AdminDrain::handle(http::Exchange& exchange) {
  const http::Request& request = exchange.request;
  std::string scratch;
  const http::QueryString query(request.query, scratch);
  http::QueryPairs pairs = query.pairs();
  const auto server = query.next("server", pairs);
  if (!server || server->broken) return http::problem(400, "The query names no server: ?server=127.0.0.1:3000");
  if (query.next("server", pairs)) return http::problem(400, "The query names several servers.");
  return set(std::string(request.path_values[0]), std::string(server->text));
}

core::Task<http::Response> AdminDrain::set(std::string upstream, std::string server) {
  const Instant deadline = core_.reactor().now() + answer_wait;
  // Every core is asked, because only the upstream's owner knows that it is.
  bool is_known = false;
  for (unsigned i = 0; i < workers_.size(); ++i) {
    const auto done =
        co_await core_.mesh().call(i, deadline, [worker = workers_[i], upstream, server, drains = drains_] {
          return drain(*worker, upstream, server, drains);
        });
    if (!done) co_return http::problem(503, "Core " + std::to_string(i) + " does not answer.");
    is_known = is_known || *done;
  }
  if (!is_known) co_return http::problem(404, "There is no such server; GET /upstreams lists all.");
  co_return runtime::text_response("text/plain", drains_ ? "drained\n" : "enabled\n");
}

}  // namespace sluice::app
