#include "runtime/admin.h"

#include <new>
#include <system_error>
#include <utility>

#include "base/assert.h"
#include "base/version.h"
#include "core/next_turn.h"
#include "http/exchange.h"
#include "runtime/admin_token.h"
#include "runtime/process_readings.h"

namespace sluice::runtime {
namespace {

constexpr Duration readiness_wait = 2s;
constexpr Duration metrics_wait = 5s;
// Must be less than the number of descriptors reserved in descriptors_for_clients().
constexpr std::size_t most_connections = 64;

bool is_own(std::string_view authority) {
  std::string_view host = authority;
  if (const auto colon = host.rfind(':'); colon != host.npos && !host.ends_with(']')) host = host.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return http::same_name(host, "localhost") || core::Address::from_ip(host, 0).has_value();
}

std::optional<http::Response> refuse_browsers(const http::Request& request) {
  if (request.has_field("origin")) return http::problem(403, "A page of a browser may not ask for this.");
  if (is_own(request.authority)) return std::nullopt;
  return http::problem(403, "The Host field is neither an address nor localhost.");
}

}  // namespace

http::Response text_response(std::string_view type, std::string_view text) {
  http::Response response;
  response.fields.add("Content-Type", type);
  response.fields.add("Cache-Control", "no-store");
  Buffer body;
  body.append(text);
  response.body = std::move(body);
  return response;
}

// Lets requests through to the pages from the core's first turn on: then all cores run, and have their PerCore.
class Admin::Front final : public http::Handler {
 public:
  explicit Front(http::Router& router) : router_(router) {}

  core::Async<http::Response> handle(http::Exchange& exchange) override {
    if (runs_ && !is_admitted(exchange.request)) {
      http::Response refused = http::problem(401, "This needs the token of [admin].");
      refused.fields.add("WWW-Authenticate", "Bearer");
      return refused;
    }
    if (runs_) return router_.handle(exchange);
    http::Response response = http::problem(503, "The server is starting.");
    response.fields.add("Retry-After", "1");
    return response;
  }
  core::Task<void> wait(core::Reactor& reactor) {
    co_await core::NextTurn(reactor);
    runs_ = true;
  }
  void require_token(std::function<std::string_view()> token) { token_ = std::move(token); }

 private:
  [[nodiscard]] bool is_admitted(const http::Request& request) const {
    const std::string_view token = token_ ? token_() : std::string_view();
    return token.empty() || request.path == "/livez" || request.path == "/readyz" ||
           has_admin_token(request.field("authorization"), token);
  }

  http::Router& router_;
  std::function<std::string_view()> token_;
  bool runs_ = false;
};

class Admin::Live final : public http::Handler {
 public:
  core::Async<http::Response> handle(http::Exchange&) override { return text_response("text/plain", "live\n"); }
};

// Ready: not about to end, every core has its keys, every database answers on every core, and every required upstream
// has a server. Each core has its own connections, which may recover at different times.
class Admin::Ready final : public http::Handler {
 public:
  Ready(core::Core& core, std::span<PerCore* const> per_core) : core_(core), per_core_(per_core) {}

  core::Async<http::Response> handle(http::Exchange&) override { return find_out(); }

 private:
  core::Task<http::Response> find_out() {
    if (per_core_[core_.index()]->leaving()) co_return not_ready("The server is draining.");
    const Instant deadline = core_.reactor().now() + readiness_wait;
    std::string note;  // nearly the same on all cores
    for (unsigned i = 0; i < per_core_.size(); ++i) {
      auto found = co_await core_.mesh().call(i, deadline,
                                              [one = per_core_[i], deadline] { return one->find_readiness(deadline); });
      if (!found) co_return not_ready("Core " + std::to_string(i) + " does not answer.");
      if (!found->is_ready) co_return not_ready(found->text);
      if (!found->text.empty()) note = std::move(found->text) + "\n";
    }
    co_return text_response("text/plain", "ready\n" + note);
  }
  static http::Response not_ready(std::string_view why) {
    http::Response response = http::problem(503, why);
    response.fields.add("Retry-After", "1");
    return response;
  }

  core::Core& core_;
  std::span<PerCore* const> per_core_;
};

class Admin::Metrics final : public http::Handler {
 public:
  Metrics(core::Core& core, std::span<PerCore* const> per_core, const std::vector<std::function<Readings()>>& more)
      : core_(core), per_core_(per_core), more_(more), process_(core) {}

  core::Async<http::Response> handle(http::Exchange&) override { return gather(); }

 private:
  core::Task<http::Response> gather() {
    try {
      co_return co_await gather_all();
    } catch (const std::bad_alloc&) {
      co_return without_memory();
    }
  }

  static http::Response without_memory() {
    http::Response response = http::problem(503, "There is no memory to put the metrics together.");
    response.fields.add("Retry-After", "1");
    return response;
  }

  core::Task<http::Response> gather_all() {
    RequestMetrics requests;
    ReadingSums sums;
    sums.add({
        gauge("sluice_build_info", "The version that runs.", 1, label("version", version)),
        gauge("sluice_cores", "Worker threads.", per_core_.size()),
    });
    const Instant deadline = core_.reactor().now() + metrics_wait;
    for (unsigned i = 0; i < per_core_.size(); ++i) {
      Snapshot snapshot;
      if (i == core_.index()) {
        snapshot = per_core_[i]->snapshot();
      } else {
        auto answer = co_await core_.mesh().call(i, deadline, [one = per_core_[i]] { return one->snapshot(); });
        if (!answer && answer.error().code == Errc::timed_out) {
          co_return http::problem(503, "Core " + std::to_string(i) + " has not answered within 5 s.");
        }
        if (!answer && answer.error().code == Errc::system) co_return without_memory();
        if (!answer) continue;  // that core has ended
        snapshot = std::move(*answer);
      }
      requests.add(snapshot.requests);
      sums.add(std::move(snapshot.readings));
    }
    for (const auto& readings : more_) sums.add(readings());
    sums.add(co_await process_.gather());
    MetricsText text;
    sums.render(text);
    render(requests, per_core_[core_.index()]->route_names(), text);
    co_return text_response("text/plain; version=0.0.4; charset=utf-8", text.take());
  }

  core::Core& core_;
  std::span<PerCore* const> per_core_;
  const std::vector<std::function<Readings()>>& more_;
  ProcessReadings process_;
};

class Admin::NoBrowsers final : public http::FilterOf<NoBrowsers> {
 public:
  explicit NoBrowsers(bool always) : refuses(always) {}
  core::Async<std::optional<http::Response>> before(http::Exchange& exchange, http::Slot&) override {
    return refuses ? refuse_browsers(exchange.request) : std::nullopt;
  }

  bool refuses;
};

Admin::Admin(core::Core& core, std::span<PerCore* const> per_core)
    : reads_(std::make_shared<NoBrowsers>(false)),
      acts_(std::make_shared<NoBrowsers>(true)),
      core_(core),
      front_(std::make_unique<Front>(router_)),
      server_(core.reactor(), *front_, http::ServerOptions{.connections = most_connections, .makes_room = true}) {
  add(http::Method::get, "/livez", Guard::none, std::make_unique<Live>());
  add(http::Method::get, "/readyz", Guard::none, std::make_unique<Ready>(core, per_core));
  add(http::Method::get, "/metrics", Guard::reads, std::make_unique<Metrics>(core, per_core, readings_));
}

Admin::~Admin() = default;

void Admin::add(http::Method method, std::string_view path, Guard guard, std::unique_ptr<http::Handler> handler) {
  http::Binding::Filters filters;
  if (guard != Guard::none) filters.push_back(guard == Guard::reads ? reads_ : acts_);
  http::Router::Route route{.pattern = *http::Pattern::parse(path),
                            .binding = std::make_shared<http::Binding>(http::Binding::Filters{}, std::move(filters))};
  route.handlers[static_cast<std::size_t>(method)] = handler.get();
  [[maybe_unused]] const bool added = router_.add(route);
  SLUICE_ASSERT(added);
  handlers_.push_back(std::move(handler));
}

void Admin::require_token(std::function<std::string_view()> token) { front_->require_token(std::move(token)); }

void Admin::listen(const net::Listening& wanted) {
  const core::Address& address = wanted.address;
  core_.tasks().spawn(front_->wait(core_.reactor()));
  reads_->refuses = address.is_loopback() && address.port() != 0;  // browsers reach no unix socket
  if (const auto bound = server_.listen(wanted); !bound) {
    throw std::system_error(bound.error().detail, std::generic_category(), "cannot listen on " + address.text());
  }
}

}  // namespace sluice::runtime
