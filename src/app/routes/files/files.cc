// [[files]]
#include <string>
#include <utility>
#include <vector>

#include "app/config/checks.h"
#include "app/config/difference.h"
#include "app/routes/claims.h"
#include "app/routes/files/tables.h"
#include "app/routes/preparation.h"
#include "app/site.h"
#include "base/contains.h"

namespace sluice::app {
namespace {

// The paths of everything else on the same host, up to their first parameter.
std::vector<std::string> api_paths(const std::vector<Claim>& claims, std::string_view host) {
  std::vector<std::string> paths;
  for (const Claim& claim : claims) {
    if (claim.folder || (!claim.host.empty() && claim.host != host)) continue;
    std::string literals;
    for (const auto& segment : claim.pattern.segments) {
      if (segment.kind != http::Pattern::Kind::literal) break;
      literals += "/" + segment.text;
    }
    if (!literals.empty() && !contains(paths, literals)) paths.push_back(std::move(literals));
  }
  return paths;
}

class FilesRoute final : public Route {
 public:
  FilesRoute(const files::FilesOptions& options, Plan::RouteId id, std::shared_ptr<const FilesComponent> files)
      : options_(options), id_(id), files_(std::move(files)) {}

  void build(Site& site) const override {
    Site::Builder builder(site, id_, shared_from_this(), options_.use);
    http::Router::Route route{.pattern = *http::Pattern::parse(pattern_below(options_.path.value)),
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

}  // namespace

std::expected<void, Away> FilesTables::prepare(Preparation& preparation) {
  Plan& plan = preparation.plan;
  const std::vector<Claim> claims = claims_of(plan.options);
  for (const files::FilesOptions& options : plan.options.files) {
    (void)preparation.security(options.use);
    auto files = std::make_shared<FilesComponent>(options, api_paths(claims, options.host.value));
    plan.routes.push_back(std::make_shared<FilesRoute>(options, plan.add_name(options.host.value + options.path.value),
                                                       plan.add(std::move(files), preparation.previous)));
  }
  return {};
}

void FilesTables::check(config::Checks& checks) {
  for (files::FilesOptions& files : checks.options.files) {
    checks.check_use(files.use);
    if (files.cache_control) checks.check_field_value(*files.cache_control);
    std::string& path = files.path.value;
    while (path.size() > 1 && path.ends_with('/')) path.pop_back();  // "/docs/" and "/docs" are equal
    const auto pattern = checks.parse_path(files.path);
    if (!pattern || pattern->names().empty()) continue;
    checks.complain(files.path.position, "the path of files has no parameters", "everything below it is served");
  }
}

void FilesTables::claim(const Options& options, std::vector<Claim>& claims) {
  for (const files::FilesOptions& files : options.files) {
    claims.push_back({.path = files.path.value,
                      .host = files.host.value,
                      .position = files.path.position,
                      .use = &files.use,
                      .folder = true});
  }
}

}  // namespace sluice::app
