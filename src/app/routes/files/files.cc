// [[files]]
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "app/config/checks.h"
#include "app/config/difference.h"
#include "app/config/paths.h"
#include "app/explain/answer.h"
#include "app/prepare/preparation.h"
#include "app/routes/files/tables.h"
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

// The policies of a folder protect nothing if other [[files]] serve the same folder at another path without them. (At
// the same path the more specific route wins, so "/" and "/private" may serve nested folders.)
void check_ways_around(const Options& options, std::vector<config::Diagnostic>& errors) {
  const std::vector<files::FilesOptions>& all = options.files;
  std::vector<std::string> roots;
  for (const auto& files : all) {
    std::error_code error;
    roots.push_back(std::filesystem::canonical(files.root.value, error).string());
    if (error) return;  // already reported
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto obeys = [&](const files::FilesOptions& other) {
      return std::ranges::all_of(all[i].use, [&](const auto& policy) {
        const auto index = options.find_policy(policy.value);
        if (index && !options.policies[*index].value.kind().is_guard) return true;
        return std::ranges::find(other.use, policy.value, &Located<std::string>::value) != other.use.end();
      });
    };
    for (std::size_t k = 0; k < all.size(); ++k) {
      if (obeys(all[k]) || !config::is_within(roots[i], roots[k])) continue;
      const std::string below = roots[i].substr(roots[k].ends_with('/') ? roots[k].size() - 1 : roots[k].size());
      const std::string path = (all[k].path.value == "/" ? "" : all[k].path.value) + below;
      if (std::ranges::any_of(all, [&](const auto& one) {
            return obeys(one) && one.host.value == all[k].host.value && config::is_within(path, one.path.value);
          })) {
        continue;
      }
      errors.push_back(
          {all[i].root.position,
           fmt::format("the files in {} serve this folder too, at {}, without the policies that stand here",
                       options.sources.line(all[k].root.position), path.empty() ? "/" : path),
           "move it out of theirs"});
    }
  }
}

// [[files]] must not serve the files that clients upload to a store: it would not apply the store's policies, and would
// derive media types from file names.
void check_stores(const Options& options, std::vector<config::Diagnostic>& errors) {
  for (const auto& store : options.stores) {
    const auto& path = store.value.path;
    const std::string own = config::real_path(path.value);
    for (const auto& files : options.files) {
      if (!config::is_within(own, config::real_path(files.root.value))) continue;
      errors.push_back({path.position,
                        fmt::format("the files in {} serve this folder", options.sources.line(files.root.position)),
                        "move it out of theirs"});
    }
  }
}

}  // namespace

void FilesTables::resolve(Options& options, const config::Paths& paths) {
  for (auto& files : options.files) {
    if (files.root.value.empty()) continue;
    paths.resolve(files.root);
    std::error_code error;
    if (std::filesystem::is_directory(files.root.value, error)) {
      if (!files.fallback || files.fallback->value.empty()) continue;
      const std::string fallback = files.root.value + "/" + files.fallback->value;
      if (!std::filesystem::is_regular_file(fallback, error)) {
        paths.errors.push_back(
            {files.fallback->position, "there is no such file", fmt::format("it would be {}", fallback)});
      }
      continue;
    }
    paths.errors.push_back(
        {files.root.position,
         fmt::format("the folder cannot be served: {}", error ? error.message() : "it is not a folder"),
         fmt::format("it would be {}", files.root.value)});
  }
  check_ways_around(options, paths.errors);
  check_stores(options, paths.errors);
}

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
