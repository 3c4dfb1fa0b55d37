// [openapi]
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "app/config/checks.h"
#include "app/config/difference.h"
#include "app/explain/answer.h"
#include "app/prepare/preparation.h"
#include "app/routes/openapi/tables.h"
#include "app/routes/shapes.h"
#include "app/site.h"
#include "http/escape.h"
#include "http/page.h"

namespace sluice::app {
namespace {

constexpr std::string_view explorer_page =
#include "app/routes/openapi/explorer.html.inc"
    ;

// The page for this path. It refers to the server's root relatively, so that a proxy in front may add a prefix.
std::string explorer_at(std::string_view path, std::string_view document) {
  std::string root;
  for (auto slashes = std::ranges::count(path, '/'); slashes > 1; --slashes) root += "../";
  if (root.empty()) root = "./";
  std::string link = root;
  http::append_url_path(link, document.substr(1));
  std::string page(explorer_page);
  const auto fill = [&](std::string_view placeholder, std::string_view text) {
    page.replace(page.find(placeholder), placeholder.size(), text);
  };
  fill("{root}", root);
  fill("{document}", link);
  return page;
}

class OpenApiRoute final : public Route {
 public:
  OpenApiRoute(Plan& plan, const api::openapi::Options& options, std::string document)
      : Route(plan, shapes_of<OpenApiTable>(options)),
        options_(options),
        document_(http::Page::json(std::move(document))) {
    if (options.explorer) explorer_ = http::Page::html(explorer_at(options.explorer->value, options.path.value));
  }

  void build(Site& site) const override {
    for (const Shape& shape : shapes()) {
      Site::Builder builder(site, *this, shape);
      builder.add(builder.own(std::make_unique<http::PageHandler>(is_document(shape) ? document_ : explorer_)));
    }
  }
  void explain(AnswerExplainer& into, const Shape& shape, http::Exchange&) const override {
    into.add("openapi", is_document(shape) ? "the description of the endpoints" : "the page that shows the endpoints");
  }

  bool is_same(const Route& before) const override {
    const auto* const other = dynamic_cast<const OpenApiRoute*>(&before);
    return other != nullptr && config::same(options_, other->options_);
  }

 private:
  [[nodiscard]] bool is_document(const Shape& shape) const { return shape.path == options_.path.value; }

  const api::openapi::Options options_;
  const std::shared_ptr<const http::Page> document_;
  std::shared_ptr<const http::Page> explorer_;  // null: none
};

}  // namespace

std::expected<void, Away> OpenApiTable::prepare(Preparation& preparation) {
  if (!preparation.options().openapi) return {};
  const api::openapi::Options& options = *preparation.options().openapi;
  (void)preparation.security(options.use);
  Plan& plan = preparation.plan;
  Route::Described described;
  for (const auto& route : plan.routes) route->describe(described);
  auto document = api::openapi::make_document(options, described.resources, described.residents, described.websockets,
                                              described.batch ? &*described.batch : nullptr);
  std::ranges::move(document.warnings, std::back_inserter(plan.warnings));
  plan.routes.push_back(std::make_shared<OpenApiRoute>(plan, options, std::move(document.text)));
  return {};
}

void OpenApiTable::check(config::Checks& checks) {
  if (!checks.options.openapi) return;
  const api::openapi::Options& openapi = *checks.options.openapi;
  checks.check_use(openapi.use);
  const auto check_path = [&](const Located<std::string>& path, std::string_view what) {
    const auto pattern = checks.parse_path(path);
    if (pattern && !pattern->names().empty()) {
      checks.complain(path.position, fmt::format("the {} of [openapi] has no parameters", what));
    }
  };
  check_path(openapi.path, "path");
  if (openapi.explorer) check_path(*openapi.explorer, "explorer");
}

std::vector<Shape> OpenApiTable::shapes(const api::openapi::Options& options) {
  const auto& [path, position] = options.path;
  std::vector<Shape> shapes = {
      {.path = path, .position = position.line == 0 ? options.position : position, .use = options.use}};
  if (options.explorer) {
    shapes.push_back({.path = options.explorer->value, .position = options.explorer->position, .use = options.use});
  }
  return shapes;
}

}  // namespace sluice::app
