// [[files]]
#include <string>
#include <utility>
#include <vector>

#include "app/config/difference.h"
#include "app/routes/kind.h"
#include "app/worker.h"
#include "base/contains.h"

namespace sluice::app {
namespace {

// The paths of everything on the same host that is an API, up to their first parameter.
std::vector<std::string> api_paths(const Options& all, std::string_view host) {
  std::vector<std::string> paths;
  const auto add = [&](const Located<std::string>& of, std::string_view path) {
    const auto pattern = http::Pattern::parse(path);
    if (!pattern || (!of.value.empty() && of.value != host)) return;
    std::string literals;
    for (const auto& segment : pattern->segments) {
      if (segment.kind != http::Pattern::Kind::literal) break;
      literals += "/" + segment.text;
    }
    if (!literals.empty() && !contains(paths, literals)) paths.push_back(std::move(literals));
  };
  for (const auto& endpoint : all.endpoints) add(endpoint.host, endpoint.path.value);
  for (const auto& route : all.routes) add(route.host, route.path.value);
  for (const auto& websocket : all.websockets) add(websocket.host, websocket.path.value);
  for (const auto& resident : all.residents) {
    if (resident.serve) add(resident.host, "/" + resident.name.value);
  }
  return paths;
}

class FilesRoute final : public Route {
 public:
  FilesRoute(const files::FilesOptions& options, Plan::RouteId id, std::shared_ptr<const FilesComponent> files)
      : options_(options), id_(id), files_(std::move(files)) {}

  void build(Site& site) const override {
    const std::string& path = options_.path.value;
    Site::Builder builder(site, id_, shared_from_this(), options_.use);
    http::Router::Route route{.pattern = *http::Pattern::parse(path + (path.ends_with('/') ? "" : "/") + "{file...}"),
                              .host = options_.host.value,
                              .folder = true};
    route.handlers[static_cast<std::size_t>(http::Method::get)] = &builder.part(*files_);
    builder.add(std::move(route));
  }

  Id id() const override { return id_; }
  // The paths of APIs only concern the fallback of new requests.
  bool is_same(const Route& before) const override {
    const auto* const other = dynamic_cast<const FilesRoute*>(&before);
    return other != nullptr && config::same(options_, other->options_);
  }

 private:
  const files::FilesOptions options_;
  const Plan::RouteId id_;
  const std::shared_ptr<const FilesComponent> files_;
};

std::expected<void, Away> prepare_files(Preparation& preparation) {
  Plan& plan = preparation.plan;
  for (const files::FilesOptions& options : plan.options.files) {
    (void)preparation.security(options.use);
    auto files = std::make_shared<FilesComponent>(options, api_paths(preparation.options(), options.host.value));
    plan.routes.push_back(std::make_shared<FilesRoute>(options, plan.add_name(options.host.value + options.path.value),
                                                       plan.add(std::move(files), preparation.previous)));
  }
  return {};
}

}  // namespace

extern const Kind files_kind{prepare_files};

}  // namespace sluice::app
