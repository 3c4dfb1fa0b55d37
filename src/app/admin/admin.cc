#include "app/admin/admin.h"

#include <memory>
#include <utility>

#include "app/admin/configuration.h"
#include "app/admin/explain.h"
#include "app/admin/live.h"
#include "app/admin/revoke.h"
#include "app/admin/upstreams.h"
#include "http/page.h"

namespace sluice::app {
namespace {

// Holds no data: its script reads /live and /configuration.
constexpr const char* page =
#include "app/admin/page.html.inc"
    ;

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
               Reloader& reloader, const Changes& changes, const Residents& residents, const LogTail& log) {
  using enum http::Method;
  using enum runtime::Admin::Guard;
  admin.add(get, "/", always, std::make_unique<http::PageHandler>(http::Page::html(page)));
  admin.add(get, "/live", always, std::make_unique<AdminLive>(core, workers, admin.gatherer(), reloader, log));
  admin.add(get, "/configuration", always, std::make_unique<AdminConfiguration>(core, workers));
  admin.add(get, "/upstreams", on_loopback, std::make_unique<AdminUpstreams>(core, workers));
  admin.add(post, "/upstreams/{name}/drain", always, std::make_unique<AdminDrain>(core, workers, true));
  admin.add(post, "/upstreams/{name}/enable", always, std::make_unique<AdminDrain>(core, workers, false));
  admin.add(post, "/jwt/revoke", always, std::make_unique<AdminRevoke>(core, workers, reloader.threads()));
  admin.add(post, "/explain", always, std::make_unique<AdminExplain>(core, reloader));
  admin.add(post, "/reload", always, std::make_unique<Reload>(core, reloader));
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
