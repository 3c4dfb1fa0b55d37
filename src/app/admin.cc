#include "app/admin.h"

#include <new>
#include <string>
#include <system_error>
#include <utility>

#include "app/admin_explain.h"
#include "app/admin_request.h"
#include "app/admin_revoke.h"
#include "app/admin_upstreams.h"

namespace sluice::app {
namespace {

constexpr Duration readiness_wait = 2s;
constexpr Duration metrics_wait = 5s;
// Must be less than the number of descriptors reserved in descriptors_for_clients().
constexpr std::size_t most_connections = 64;

}  // namespace

class Admin::Live final : public http::Handler {
 public:
  core::Async<http::Response> handle(http::Exchange&) override { return text_response("text/plain", "live\n"); }
};

// Ready: not draining, every core has its keys, every database answers on every core, and every required upstream has a
// server. Each core has its own connections, which may recover at different times.
class Admin::Ready final : public http::Handler {
 public:
  Ready(core::Core& core, std::span<Worker* const> workers) : core_(core), workers_(workers) {}

  core::Async<http::Response> handle(http::Exchange&) override { return find_out(); }

 private:
  core::Task<http::Response> find_out() {
    if (workers_[core_.index()]->draining()) co_return not_ready("The server is shutting down.");
    const Instant deadline = core_.reactor().now() + readiness_wait;
    std::string note;  // nearly the same on all cores
    for (unsigned i = 0; i < workers_.size(); ++i) {
      auto found = co_await core_.mesh().call(
          i, deadline, [worker = workers_[i], deadline] { return worker->find_readiness(deadline); });
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
  std::span<Worker* const> workers_;
};

class Admin::Metrics final : public http::Handler {
 public:
  Metrics(core::Core& core, const Io& io, std::span<Worker* const> workers, const Reloader* reloader,
          const Changes* changes, const Residents* residents)
      : core_(core), io_(io), workers_(workers), reloader_(reloader), changes_(changes), residents_(residents) {}

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
        gauge("sluice_build_info", "The version that runs.", 1, label("version", SLUICE_VERSION)),
        gauge("sluice_cores", "Worker threads.", workers_.size()),
        gauge("sluice_io_info", "The interface by which the cores wait for their sockets.", 1,
              label("io", name_of(io_.back_end))),
    });
    const Instant deadline = core_.reactor().now() + metrics_wait;
    for (unsigned i = 0; i < workers_.size(); ++i) {
      Worker::Snapshot snapshot;
      if (i == core_.index()) {
        snapshot = workers_[i]->snapshot();
      } else {
        auto answer = co_await core_.mesh().call(i, deadline, [worker = workers_[i]] { return worker->snapshot(); });
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
    if (reloader_ != nullptr) sums.add(reloader_->readings());
    if (changes_ != nullptr) sums.add(changes_->readings());
    if (residents_ != nullptr) sums.add(residents_->readings());
    MetricsText text;
    sums.render(text);
    render(requests, workers_[core_.index()]->route_names(), text);
    co_return text_response("text/plain; version=0.0.4; charset=utf-8", text.take());
  }

  core::Core& core_;
  const Io io_;
  std::span<Worker* const> workers_;
  const Reloader* const reloader_;    // null in tests
  const Changes* const changes_;      // null: no endpoint publishes changes
  const Residents* const residents_;  // null: no resident tables
};

// For the paths that anyone may read who reaches the listener. Only on a loopback address must these be asked for by an
// address or as localhost; elsewhere a Prometheus may know the server by any name.
class Admin::NoBrowsers final : public http::Filter {
 public:
  NoBrowsers() : Filter(Parts::before) {}
  core::Async<std::optional<http::Response>> before(http::Exchange& exchange, http::Slot&) override {
    return is_local ? refuse_browsers(exchange.request) : std::nullopt;
  }

  bool is_local = false;
};

class Admin::Reload final : public http::Handler {
 public:
  Reload(core::Core& core, Reloader& reloader) : core_(core), reloader_(reloader) {}

  core::Async<http::Response> handle(http::Exchange& exchange) override {
    if (auto refused = refuse_browsers(exchange.request)) return std::move(*refused);
    return reload();
  }

 private:
  core::Task<http::Response> reload() {
    auto work = [&reloader = reloader_] { return reloader.reload(); };
    auto done = co_await reloader_.threads().run(core_.mailbox(), std::move(work));
    if (!done) co_return http::problem(503, "Too many ask for this at once, or the server is ending.");
    if (!*done) co_return text_response("text/plain; charset=utf-8", "The configuration has been read again.\n");
    http::Response refused = text_response("text/plain; charset=utf-8", **done);
    refused.status = 422;
    co_return refused;
  }

  core::Core& core_;
  Reloader& reloader_;
};

Admin::Admin(core::Core& core, const Io& io, std::span<Worker* const> workers, Reloader* reloader,
             const Changes* changes, const Residents* residents)
    : no_browsers_(std::make_shared<NoBrowsers>()),
      server_(core.reactor(), router_, http::ServerOptions{.connections = most_connections, .makes_room = true}) {
  const auto add = [&](std::string_view path, std::unique_ptr<http::Handler> handler,
                       http::Method method = http::Method::get, http::Binding::Filters filters = {}) {
    http::Router::Route route{.pattern = *http::Pattern::parse(path),
                              .binding = std::make_shared<http::Binding>(http::Binding::Filters{}, std::move(filters))};
    route.handlers[static_cast<std::size_t>(method)] = handler.get();
    [[maybe_unused]] const bool added = router_.add(route);
    SLUICE_ASSERT(added);
    handlers_.push_back(std::move(handler));
  };
  add("/livez", std::make_unique<Live>());
  add("/readyz", std::make_unique<Ready>(core, workers));
  add("/metrics", std::make_unique<Metrics>(core, io, workers, reloader, changes, residents), http::Method::get,
      {no_browsers_});
  add("/upstreams", std::make_unique<AdminUpstreams>(core, workers), http::Method::get, {no_browsers_});
  add("/upstreams/{name}/drain", std::make_unique<AdminDrain>(core, workers, true), http::Method::post);
  add("/upstreams/{name}/enable", std::make_unique<AdminDrain>(core, workers, false), http::Method::post);
  if (reloader != nullptr) {
    add("/jwt/revoke", std::make_unique<AdminRevoke>(core, workers, reloader->threads()), http::Method::post);
    add("/explain", std::make_unique<AdminExplain>(core, *reloader), http::Method::post);
    add("/reload", std::make_unique<Reload>(core, *reloader), http::Method::post);
  }
}

Admin::~Admin() = default;

void Admin::listen(const core::Address& address) {
  no_browsers_->is_local = address.is_loopback() && address.port() != 0;  // browsers reach no unix socket
  if (const auto bound = server_.listen(address); !bound) {
    throw std::system_error(bound.error().detail, std::generic_category(), "cannot listen on " + address.text());
  }
}

}  // namespace sluice::app
