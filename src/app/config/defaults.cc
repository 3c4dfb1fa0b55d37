#include "app/config/defaults.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "app/routes/endpoint/check_endpoint.h"

namespace sluice::app::config {
namespace {

using Names = std::vector<Located<std::string>>;

class Defaults {
 public:
  Defaults(const Names& names, std::vector<Diagnostic>& errors) : names_(names), errors_(errors) {}

  template <class Table>
  void apply(Table& table, bool has_path = true) {
    if (table.is_public.position.line != 0 && !has_path) {
      errors_.push_back({table.is_public.position, "\"public\" is for tables that have a path"});
    }
    if (has_path) inherit(table, names_);
  }

  // Puts the inherited names before those of the table, unless it is public.
  template <class Table>
  static void inherit(Table& table, const Names& names) {
    if (table.is_public.value) return;
    Names use = names;
    std::ranges::copy_if(table.use, std::back_inserter(use), [&](const Located<std::string>& own) {
      return std::ranges::find(names, own.value, &Located<std::string>::value) == names.end();
    });
    table.use = std::move(use);
  }

 private:
  const Names& names_;
  std::vector<Diagnostic>& errors_;
};

}  // namespace

void apply_defaults(Options& options, std::vector<Diagnostic>& errors) {
  Defaults defaults(options.defaults.use, errors);
  for (auto& endpoint : options.endpoints) {
    defaults.apply(endpoint);
    for (const auto& [method, writing] : endpoint.writing_methods()) Defaults::inherit(*writing, endpoint.use);
    if (endpoint.formats.empty() && answers_with_rows(endpoint)) endpoint.formats = options.defaults.formats;
  }
  for (auto& resident : options.residents) defaults.apply(resident, resident.serve.value);
  for (auto& files : options.files) defaults.apply(files);
  for (auto& websocket : options.websockets) defaults.apply(websocket);
  for (auto& route : options.routes) defaults.apply(route);
  if (options.batch) defaults.apply(*options.batch);
  if (options.openapi) defaults.apply(*options.openapi);
}

}  // namespace sluice::app::config
