// [openapi]
#include <utility>

#include "api/openapi/handler.h"
#include "app/config/checks.h"
#include "app/config/difference.h"
#include "app/routes/claims.h"
#include "app/routes/openapi/tables.h"
#include "app/routes/preparation.h"
#include "app/site.h"

namespace sluice::app {
namespace {

class OpenApiRoute final : public Route {
 public:
  OpenApiRoute(const api::openapi::Options& options, Plan::RouteId id, std::string document)
      : options_(options), id_(id), document_(std::make_shared<const api::openapi::Published>(std::move(document))) {}

  void build(Site& site) const override {
    http::Router::Route route{.pattern = *http::Pattern::parse(options_.path.value)};
    Site::Builder builder(site, id_, shared_from_this(), options_.use);
    route.handlers[static_cast<std::size_t>(http::Method::get)] =
        builder.own(std::make_unique<api::openapi::DocumentHandler>(document_));
    builder.add(std::move(route));
  }

  Id id() const override { return id_; }
  bool is_same(const Route& before) const override {
    const auto* const other = dynamic_cast<const OpenApiRoute*>(&before);
    return other != nullptr && config::same(options_, other->options_);
  }

 private:
  const api::openapi::Options options_;
  const Plan::RouteId id_;
  const std::shared_ptr<const api::openapi::Published> document_;
};

}  // namespace

std::expected<void, Away> OpenApiTable::prepare(Preparation& preparation) {
  if (!preparation.options().openapi) return {};
  const api::openapi::Options& options = *preparation.options().openapi;
  (void)preparation.security(options.use);
  Plan& plan = preparation.plan;
  Route::Described described;
  for (const auto& route : plan.routes) route->describe(described);
  auto document = api::openapi::make_document(options, described.resources, described.residents,
                                              described.batch ? &*described.batch : nullptr);
  std::ranges::move(document.warnings, std::back_inserter(plan.warnings));
  plan.routes.push_back(
      std::make_shared<OpenApiRoute>(options, plan.add_name(options.path.value), std::move(document.text)));
  return {};
}

void OpenApiTable::check(config::Checks& checks) {
  if (!checks.options.openapi) return;
  const api::openapi::Options& openapi = *checks.options.openapi;
  checks.check_use(openapi.use);
  const auto pattern = checks.parse_path(openapi.path);
  if (pattern && !pattern->names().empty()) {
    checks.complain(openapi.path.position, "the path of [openapi] has no parameters");
  }
}

void OpenApiTable::claim(const Options& options, std::vector<Claim>& claims) {
  if (!options.openapi) return;
  const auto& [path, position] = options.openapi->path;
  claims.push_back({.path = path,
                    .position = position.line == 0 ? options.openapi->position : position,
                    .use = &options.openapi->use});
}

}  // namespace sluice::app
