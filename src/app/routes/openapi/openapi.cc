// [openapi]
#include <utility>

#include "app/config/checks.h"
#include "app/config/difference.h"
#include "app/explain/answer.h"
#include "app/prepare/preparation.h"
#include "app/routes/openapi/tables.h"
#include "app/routes/shapes.h"
#include "app/site.h"
#include "http/page.h"

namespace sluice::app {
namespace {

class OpenApiRoute final : public Route {
 public:
  OpenApiRoute(Plan& plan, const api::openapi::Options& options, std::string document)
      : Route(plan, shapes_of<OpenApiTable>(options)),
        options_(options),
        document_(http::Page::json(std::move(document))) {}

  void build(Site& site) const override {
    Site::Builder builder(site, *this, shapes().front());
    builder.add(builder.own(std::make_unique<http::PageHandler>(document_)));
  }
  void explain(AnswerExplainer& into, const Shape&, http::Exchange&) const override {
    into.add("openapi", "the description of the endpoints");
  }

  bool is_same(const Route& before) const override {
    const auto* const other = dynamic_cast<const OpenApiRoute*>(&before);
    return other != nullptr && config::same(options_, other->options_);
  }

 private:
  const api::openapi::Options options_;
  const std::shared_ptr<const http::Page> document_;
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
  plan.routes.push_back(std::make_shared<OpenApiRoute>(plan, options, std::move(document.text)));
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

std::vector<Shape> OpenApiTable::shapes(const api::openapi::Options& options) {
  const auto& [path, position] = options.path;
  return {{.path = path, .position = position.line == 0 ? options.position : position, .use = options.use}};
}

}  // namespace sluice::app
