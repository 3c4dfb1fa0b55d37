#include "app/admin/admin.h"

#include <memory>
#include <utility>

#include "app/admin/explain.h"
#include "app/admin/revoke.h"
#include "app/admin/upstreams.h"

namespace sluice::app {
namespace {

class Reload final : public http::Handler {
 public:
  Reload(core::Core& core, Reloader& reloader) : core_(core), reloader_(reloader) {}

  core::Async<http::Response> handle(http::Exchange&) override { return reload(); }

 private:
  core::Task<http::Response> reload() {
    auto work = [&reloader = reloader_] { return reloader.reload(); };
    auto done = co_await reloader_.threads().run(core_.mailbox(), std::move(work));
    if (!done) co_return http::problem(503, "Too many ask for this at once, or the server is ending.");
    if (!*done)
      co_return runtime::text_response("text/plain; charset=utf-8", "The configuration has been read again.\n");
    http::Response refused = runtime::text_response("text/plain; charset=utf-8", **done);
    refused.status = 422;
    co_return refused;
  }

  core::Core& core_;
  Reloader& reloader_;
};

}  // namespace

void add_pages(runtime::Admin& admin, core::Core& core, const Io& io, std::span<Worker* const> workers,
               Reloader& reloader, const Changes& changes, const Residents& residents) {
  using enum http::Method;
  using enum runtime::Admin::Guard;
  admin.add(get, "/upstreams", reads, std::make_unique<AdminUpstreams>(core, workers));
  admin.add(post, "/upstreams/{name}/drain", acts, std::make_unique<AdminDrain>(core, workers, true));
  admin.add(post, "/upstreams/{name}/enable", acts, std::make_unique<AdminDrain>(core, workers, false));
  admin.add(post, "/jwt/revoke", acts, std::make_unique<AdminRevoke>(core, workers, reloader.threads()));
  admin.add(post, "/explain", acts, std::make_unique<AdminExplain>(core, reloader));
  admin.add(post, "/reload", acts, std::make_unique<Reload>(core, reloader));
  admin.add_readings([io] {
    return Readings{gauge("sluice_io_info", "The interface by which the cores wait for their sockets.", 1,
                          label("io", name_of(io.back_end)))};
  });
  const auto served = [workers, &core]() -> const Plan& { return workers[core.index()]->plan(); };
  admin.add_readings([served] {
    return Readings{gauge("sluice_config_info", "The SHA-256 of the configuration that is served.", 1,
                          label("sha256", served().digest))};
  });
  admin.require_token([served]() -> std::string_view {
    const auto& token = served().options.admin.token;
    return token ? std::string_view(token->value) : std::string_view();
  });
  admin.add_readings([&reloader] { return reloader.readings(); });
  admin.add_readings([&changes] { return changes.readings(); });
  admin.add_readings([&residents] { return residents.readings(); });
}

}  // namespace sluice::app
