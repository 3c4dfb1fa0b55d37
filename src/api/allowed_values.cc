#include "api/allowed_values.h"

#include <algorithm>
#include <charconv>

#include "api/source.h"

namespace sluice::api {
namespace {

// The decimal number that the configuration has, not the nearest double: 0.1.
std::optional<Decimal> decimal_of(const std::optional<Located<double>>& bound) {
  if (!bound) return std::nullopt;
  char shortest[32];
  const auto end = std::to_chars(shortest, shortest + sizeof shortest, bound->value).ptr;
  return parse_decimal({shortest, end});
}

std::string reason_of(const AllowedValues& allowed) {
  if (allowed.min && allowed.max) return "must be from " + plain(*allowed.min) + " to " + plain(*allowed.max);
  if (allowed.min) return "must be at least " + plain(*allowed.min);
  if (allowed.max) return "must be at most " + plain(*allowed.max);
  std::string list;
  for (const std::string& value : allowed.values) list += (list.empty() ? "" : ", ") + value;
  return "must be one of: " + list;
}

}  // namespace

bool AllowedValues::contain(std::string_view text, sql::ParameterType type) const {
  if (!min && !max) {
    if (std::ranges::find(values, text) != values.end()) return true;
    if (type == sql::ParameterType::text) return false;
    const auto plain = canonical(type, text);
    return plain && std::ranges::any_of(values, [&](const auto& value) { return canonical(type, value) == plain; });
  }
  const auto number = parse_decimal(text);
  return number && !(min && *number < *min) && !(max && *max < *number);
}

std::shared_ptr<const AllowedValues> allowed_values(const ParamOptions& options) {
  if (options.values.empty() && !options.min && !options.max) return nullptr;
  AllowedValues allowed{.values = {}, .min = decimal_of(options.min), .max = decimal_of(options.max), .reason = {}};
  for (const auto& one : options.values) allowed.values.push_back(one.value.text);
  allowed.reason = reason_of(allowed);
  return std::make_shared<const AllowedValues>(std::move(allowed));
}

}  // namespace sluice::api
