#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "app/config/checks.h"
#include "app/routes/resident/check_resident.h"
#include "app/routes/resident/tables.h"
#include "app/routes/shape.h"

namespace sluice::app {
namespace {

// Clients must not be able to read the tables of policies.
void check_resident_of_policies(const config::Checks& checks, const api::resident::ResidentOptions& resident) {
  const bool is_read = std::ranges::any_of(checks.options.policies, [&](const auto& policy) {
    const auto& table = policy.value.table();
    return table && table->value == resident.name.value;
  });
  if (is_read && resident.serve.value && resident.use.empty()) {
    checks.complain(resident.name.position,
                    fmt::format("a policy reads \"{}\", and everybody could read it at /{}", resident.name.value,
                                resident.name.value),
                    "add serve = false, or use = [\"NAME\"]");
  } else if (!is_read && !resident.serve.value && !checks.has_errors()) {
    checks.complain(resident.serve.position, fmt::format("nothing reads \"{}\"", resident.name.value),
                    "remove serve = false, or name it in a policy");
  } else if (!resident.serve.value && !resident.use.empty()) {
    checks.complain(resident.use.front().position, "a table without a path has no use for policies");
  }
}

}  // namespace

void ResidentTables::check(config::Checks& checks) {
  for (auto& resident : checks.options.residents) {
    checks.choose_database(resident.database, resident.position, "this resident table");
    checks.check_use(resident.use);
    if (resident.cache_control) checks.check_field_value(*resident.cache_control);
    check_resident_of_policies(checks, resident);
    config::check_resident(checks.options, resident, checks.complain);
  }
}

std::vector<Shape> ResidentTables::shapes(const api::resident::ResidentOptions& options) {
  if (!options.serve.value) return {};
  std::vector<Shape> shapes;
  const auto add = [&](std::string path) {
    shapes.push_back({.path = std::move(path),
                      .host = options.host.value,
                      .position = options.name.position,
                      .use = options.use,
                      .formats = true});
  };
  add("/" + options.name.value);
  if (!options.key.value.empty()) add("/" + options.name.value + "/{key}");
  return shapes;
}

}  // namespace sluice::app
