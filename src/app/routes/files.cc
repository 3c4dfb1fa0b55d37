// [[files]]
#include <utility>

#include "app/routes/kind.h"
#include "app/worker.h"
#include "files/static_files.h"

namespace sluice::app {
namespace {

class FilesRoute final : public Route {
 public:
  FilesRoute(const files::FilesOptions& options, Plan::RouteId id) : options_(options), id_(id) {}

  void build(Site& site) const override {
    const std::string& path = options_.path.value;
    Worker& worker = site.worker();
    auto handler = std::make_unique<files::StaticFiles>(options_, worker.reactor(), worker.mailbox(), worker.threads());
    site.count(*handler);
    http::Router::Route route{.pattern = *http::Pattern::parse(path + (path.ends_with('/') ? "" : "/") + "{file...}"),
                              .host = options_.host.value,
                              .folder = true};
    route.handlers[static_cast<std::size_t>(http::Method::get)] = site.own(std::move(handler));
    site.add(id_, std::move(route), options_.use);
  }

 private:
  const files::FilesOptions& options_;
  const Plan::RouteId id_;
};

std::expected<void, Away> prepare_files(Preparation& preparation) {
  for (const files::FilesOptions& options : preparation.options().files) {
    (void)preparation.security(options.use);
    preparation.plan.routes.push_back(
        std::make_unique<FilesRoute>(options, preparation.plan.add_name(options.host.value + options.path.value)));
  }
  return {};
}

}  // namespace

extern const Kind files_kind{prepare_files};

}  // namespace sluice::app
