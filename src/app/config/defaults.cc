#include "app/config/defaults.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "app/routes/kinds.h"

namespace sluice::app::config {
namespace {

using Names = std::vector<Located<std::string>>;

class Defaults {
 public:
  Defaults(const Names& names, std::vector<Diagnostic>& errors) : names_(names), errors_(errors) {}

  template <class Table>
  void apply(Table& table, bool has_path) {
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
  for_each_route_kind([&]<class Kind> {
    for_each_table<Kind>(options, [&](auto& table) {
      bool has_path = true;
      if constexpr (requires { table.serve.value; }) has_path = table.serve.value;
      defaults.apply(table, has_path);
      if constexpr (requires { table.writing_methods(); }) {
        for (const auto& [method, writing] : table.writing_methods()) Defaults::inherit(*writing, table.use);
      }
    });
  });
}

}  // namespace sluice::app::config
