#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "app/components/store/store.h"
#include "app/components/store/tables.h"
#include "app/config/checks.h"
#include "app/config/paths.h"
#include "app/prepare/opened_database.h"
#include "app/prepare/preparation.h"
#include "sql/reading.h"

namespace sluice::app {
namespace {

// Checks that the query `used` returns hashes of files.
std::expected<void, Away> check_used(Preparation& preparation, const Named<files::StoreOptions>& store) {
  const Located<std::string>& used = store.value.used;
  const std::size_t index = preparation.options().index_of_database(store.value.database.value);
  sql::Database* const database = preparation.databases[index].database.get();
  if (database == nullptr) return {};
  auto prepared = preparation.loop.run(database->prepare(used.value, {}));
  if (prepared) {
    const auto reads = preparation.loop.run(
        sql::check_reading(*database, preparation.options().databases[index].value, used.value, {}));
    if (!reads) prepared = std::unexpected(reads.error());
  }
  if (prepared && prepared->columns.size() == 1 && prepared->parameters.empty()) return {};
  if (!prepared && is_away(prepared.error())) return std::unexpected(Away{index, prepared.error()});
  preparation.errors.push_back({.position = used.position,
                                .message = "store \"" + store.name.value + "\": " +
                                           (prepared ? "\"used\" returns one column, the hashes, and has no parameters"
                                                     : describe(prepared.error()))});
  return {};
}

}  // namespace

void StoreTables::resolve(Options& options, const config::Paths& paths) {
  for (auto& store : options.stores) {
    if (store.value.path.value.empty()) continue;
    paths.resolve(store.value.path);
    std::error_code error;
    if (std::filesystem::exists(store.value.path.value, error) &&
        !std::filesystem::is_directory(store.value.path.value, error)) {
      paths.errors.push_back(
          {store.value.path.position, "this is no folder", fmt::format("it would be {}", store.value.path.value)});
    }
  }
  for (std::size_t i = 0; i < options.stores.size(); ++i) {
    const auto& path = options.stores[i].value.path;
    const std::string own = config::real_path(path.value);
    for (std::size_t k = 0; k < i; ++k) {
      const std::string other = config::real_path(options.stores[k].value.path.value);
      if (!config::is_within(own, other) && !config::is_within(other, own)) continue;
      paths.errors.push_back(
          {path.position, fmt::format("[store.{}] lies in the same folder", options.stores[k].name.value)});
    }
  }
}

void StoreTables::check(config::Checks& checks) {
  for (auto& [name, store] : checks.options.stores) {
    if (!store.database.value.empty() && store.used.value.empty()) {
      checks.complain(store.database.position, "\"database\" is for \"used\", which is not there");
    } else if (!store.used.value.empty()) {
      checks.choose_database(store.database, store.used.position, "the statement of \"used\"");
    }
  }
}

std::expected<void, Away> StoreTables::prepare(Preparation& preparation) {
  const Options& options = preparation.options();
  for (const auto& store : options.stores) {
    (void)preparation.plan.add(std::make_shared<StoreComponent>(store, !options.files.empty()), preparation.previous);
    if (store.value.used.value.empty()) continue;
    if (auto checked = check_used(preparation, store); !checked) return checked;
  }
  return {};
}

}  // namespace sluice::app
