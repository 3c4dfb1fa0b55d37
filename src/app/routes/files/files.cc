// [[files]]
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "app/config/checks.h"
#include "app/config/difference.h"
#include "app/explain/answer.h"
#include "app/routes/files/tables.h"
#include "app/routes/preparation.h"
#include "app/routes/shapes.h"
#include "app/site.h"
#include "base/contains.h"

namespace sluice::app {
namespace {

// The paths of everything else on the same host, up to their first parameter.
std::vector<std::string> api_paths(const std::vector<Shape>& shapes, std::string_view host) {
  std::vector<std::string> paths;
  for (const Shape& shape : shapes) {
    if (shape.folder || (!shape.host.empty() && shape.host != host)) continue;
    std::string literals;
    for (const auto& segment : shape.pattern.segments) {
      if (segment.kind != http::Pattern::Kind::literal) break;
      literals += "/" + segment.text;
    }
    if (!literals.empty() && !contains(paths, literals)) paths.push_back(std::move(literals));
  }
  return paths;
}

class FilesRoute final : public Route {
 public:
  FilesRoute(Plan& plan, const files::FilesOptions& options, std::shared_ptr<const FilesComponent> files)
      : Route(plan, shapes_of<FilesTables>(options)), options_(options), files_(std::move(files)) {}

  void build(Site& site) const override {
    Site::Builder builder(site, *this, shapes().front());
    builder.add(&builder.part(*files_));
  }
  void explain(AnswerExplainer& into, const Shape&, http::Exchange& exchange) const override {
    std::string file = options_.root.value;
    if (!file.ends_with('/')) file += '/';
    file += exchange.request.path_values[0];
    std::error_code error;
    if (!std::filesystem::exists(file, error)) file += ", which does not exist";
    into.add("file", std::move(file));
    if (options_.fallback) into.add("fallback", options_.fallback->value);
  }

  // The paths of APIs only concern the fallback of new requests.
  bool is_same(const Route& before) const override {
    const auto* const other = dynamic_cast<const FilesRoute*>(&before);
    return other != nullptr && config::same(options_, other->options_);
  }

 private:
  const files::FilesOptions options_;
  const std::shared_ptr<const FilesComponent> files_;
};

}  // namespace

std::expected<void, Away> FilesTables::prepare(Preparation& preparation) {
  Plan& plan = preparation.plan;
  const std::vector<Shape> all = shapes_of(plan.options);
  for (const files::FilesOptions& options : plan.options.files) {
    (void)preparation.security(options.use);
    auto files = std::make_shared<FilesComponent>(options, api_paths(all, options.host.value));
    plan.routes.push_back(
        std::make_shared<FilesRoute>(plan, options, plan.add(std::move(files), preparation.previous)));
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

std::vector<Shape> FilesTables::shapes(const files::FilesOptions& options) {
  return {{.path = options.path.value,
           .host = options.host.value,
           .position = options.path.position,
           .use = options.use,
           .folder = true}};
}

}  // namespace sluice::app
