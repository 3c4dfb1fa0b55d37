#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/histogram.h"

namespace sluice {

// A metric, named by the conventions of Prometheus and OpenTelemetry. The values live in plain members, and Readings
// are created when metrics are requested. Readings of equal name and labels, from all parts and cores, are added up.
struct Reading {
  enum class Kind : std::uint8_t { counter, gauge, histogram };
  std::string_view name;  // static; readings of one name have the same help and kind
  std::string_view help;  // static
  Kind kind{};
  double value = 0;
  std::string labels{};                  // as in `store="pictures",reason="type"`; empty without labels
  std::optional<Histogram> histogram{};  // instead of `value`
};
using Readings = std::vector<Reading>;

[[nodiscard]] Reading counter(std::string_view name, std::string_view help, double value, std::string labels = {});
[[nodiscard]] Reading gauge(std::string_view name, std::string_view help, double value, std::string labels = {});
[[nodiscard]] Reading histogram(std::string_view name, std::string_view help, const Histogram& values,
                                std::string labels);

// Returns `name="value"`, escaped.
[[nodiscard]] std::string label(std::string_view name, std::string_view value);

// Appends `more`, with `label` added before their own labels.
void append(Readings& all, Readings more, const std::string& label = {});

}  // namespace sluice
