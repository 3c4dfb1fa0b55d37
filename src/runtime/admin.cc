#include "runtime/admin.h"

#include <new>
#include <system_error>
#include <utility>

#include "base/assert.h"
#include "core/next_turn.h"
#include "http/exchange.h"
#include "runtime/admin_token.h"

namespace sluice::runtime {
namespace {

// Must be less than the number of descriptors reserved in descriptors_for_clients().
constexpr std::size_t most_connections = 64;

bool is_own(std::string_view authority) {
  std::string_view host = authority;
  if (const auto colon = host.rfind(':'); colon != host.npos && !host.ends_with(']')) host = host.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return http::same_name(host, "localhost") || core::Address::from_ip(host, 0).has_value();
}

// A browser names the page's origin in each request that acts, and says how it relates to this listener.
std::optional<http::Response> refuse_other_origins(const http::Request& request) {
  if (!is_own(request.authority)) return http::problem(403, "The Host field is neither an address nor localhost.");
  for (const http::Field& field : request.fields) {
    const bool is_foreign =
        http::same_name(field.name, "origin")
            ? !field.value.starts_with("http://") || field.value.substr(7) != request.authority
            : http::same_name(field.name, "sec-fetch-site") && field.value != "same-origin" && field.value != "none";
    if (is_foreign) return http::problem(403, "A page of another origin may not ask for this.");
  }
  return std::nullopt;
}

http::Response unavailable(std::string_view why) {
  http::Response response = http::problem(503, why);
  response.fields.add("Retry-After", "1");
  return response;
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
    return unavailable("The server is starting.");
  }
  core::Task<void> wait(core::Reactor& reactor) {
    co_await core::NextTurn(reactor);
    runs_ = true;
  }
  void require_token(std::function<std::string_view()> token) { token_ = std::move(token); }

 private:
  [[nodiscard]] bool is_admitted(const http::Request& request) const {
    const std::string_view token = token_ ? token_() : std::string_view();
    // The page at `/` holds no data; it asks for the token.
    return token.empty() || request.path == "/" || request.path == "/livez" || request.path == "/readyz" ||
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

class Admin::Ready final : public http::Handler {
 public:
  explicit Ready(Gatherer& gatherer) : gatherer_(gatherer) {}
  core::Async<http::Response> handle(http::Exchange&) override { return find_out(); }

 private:
  core::Task<http::Response> find_out() {
    const Readiness found = co_await gatherer_.find_readiness();
    if (!found.is_ready) co_return unavailable(found.text);
    co_return text_response("text/plain", "ready\n" + (found.text.empty() ? "" : found.text + "\n"));
  }

  Gatherer& gatherer_;
};

class Admin::Metrics final : public http::Handler {
 public:
  explicit Metrics(Gatherer& gatherer) : gatherer_(gatherer) {}
  core::Async<http::Response> handle(http::Exchange&) override { return gather(); }

 private:
  core::Task<http::Response> gather() {
    try {
      const auto sums = co_await gatherer_.gather();
      if (!sums) co_return unavailable(sums.error());
      MetricsText text;
      sums->render(text);
      co_return text_response("text/plain; version=0.0.4; charset=utf-8", text.take());
    } catch (const std::bad_alloc&) {
      co_return unavailable("There is no memory to put the metrics together.");
    }
  }

  Gatherer& gatherer_;
};

class Admin::NoOtherOrigin final : public http::FilterOf<NoOtherOrigin> {
 public:
  explicit NoOtherOrigin(bool always) : refuses(always) {}
  core::Async<std::optional<http::Response>> before(http::Exchange& exchange, http::Slot&) override {
    return refuses ? refuse_other_origins(exchange.request) : std::nullopt;
  }

  bool refuses;
};

Admin::Admin(core::Core& core, std::span<PerCore* const> per_core)
    : on_loopback_(std::make_shared<NoOtherOrigin>(false)),
      always_(std::make_shared<NoOtherOrigin>(true)),
      gatherer_(core, per_core),
      core_(core),
      front_(std::make_unique<Front>(router_)),
      server_(core.reactor(), *front_, http::ServerOptions{.connections = most_connections, .makes_room = true}) {
  add(http::Method::get, "/livez", Guard::none, std::make_unique<Live>());
  add(http::Method::get, "/readyz", Guard::none, std::make_unique<Ready>(gatherer_));
  add(http::Method::get, "/metrics", Guard::on_loopback, std::make_unique<Metrics>(gatherer_));
}

Admin::~Admin() = default;

void Admin::add(http::Method method, std::string_view path, Guard guard, std::unique_ptr<http::Handler> handler) {
  http::Binding::Filters filters;
  if (guard != Guard::none) filters.push_back(guard == Guard::on_loopback ? on_loopback_ : always_);
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
  on_loopback_->refuses = address.is_loopback() && address.port() != 0;  // browsers reach no unix socket
  if (const auto bound = server_.listen(wanted); !bound) {
    throw std::system_error(bound.error().detail, std::generic_category(), "cannot listen on " + address.text());
  }
}

}  // namespace sluice::runtime
