#include "api/batch/own_fields.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "api/require.h"
#include "api/source.h"
#include "base/ascii.h"

namespace sluice::api::batch {
namespace {

class Collector {
 public:
  void add(From from, std::string_view key) {
    if (from != From::header) return;
    names_.push_back(to_lower(key));
  }
  void add(const std::optional<Located<std::string>>& from) {
    if (!from) return;
    if (const auto source = parse_source(from->value)) add(source->from, source->key);
  }
  void add(const OneOrMore<RequireOptions>& require) {
    for (const RequireOptions& one : require.items) {
      if (const auto parsed = parse_requirement(one.that.value)) add(*parsed);
    }
  }
  void add(const Requirement& requirement) {
    for (const Operand& operand : requirement.operands) {
      if (operand.source) add(operand.source->from, operand.source->key);
    }
    for (const Requirement& part : requirement.parts) add(part);
  }

  std::vector<std::string> take() {
    std::ranges::sort(names_);
    const auto twice = std::ranges::unique(names_);
    names_.erase(twice.begin(), twice.end());
    return std::move(names_);
  }

 private:
  std::vector<std::string> names_;
};

}  // namespace

std::vector<std::string> own_fields(const RolePlan* role, std::span<const EndpointOptions* const> endpoints) {
  Collector found;
  if (role != nullptr && role->source) found.add(role->source->from, role->source->key);
  if (role != nullptr) {
    for (const Source& setting : role->settings) found.add(setting.from, setting.key);
  }
  for (const EndpointOptions* const endpoint : endpoints) {
    found.add(endpoint->require);
    for (const auto& param : endpoint->params) found.add(param.value.from);
    for (const auto& [method, writing] : endpoint->writing_methods()) {
      found.add(writing->require);
      for (const auto& column : writing->columns) found.add(column.value.from);
    }
  }
  return found.take();
}

}  // namespace sluice::api::batch
