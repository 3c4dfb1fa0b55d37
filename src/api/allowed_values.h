#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/decimal.h"
#include "api/options.h"
#include "sql/database.h"

namespace sluice::api {

// The values that `values`, or `min` and `max`, allow for a parameter. Created at start, immutable.
struct AllowedValues {
  std::vector<std::string> values;  // empty if there are only bounds
  std::optional<Decimal> min;
  std::optional<Decimal> max;
  std::string reason;  // of a refusal: "must be one of: asc, desc", "must be from 1 to 100"

  // `type`: the value's type, in which notations of the same value are equal. A text that is not a number is outside of
  // any bounds.
  [[nodiscard]] bool contain(std::string_view text, sql::ParameterType type) const;
};

// Returns null if the options allow every value.
[[nodiscard]] std::shared_ptr<const AllowedValues> allowed_values(const ParamOptions& options);

}  // namespace sluice::api
