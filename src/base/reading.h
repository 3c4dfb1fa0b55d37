#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

// A number for operators, named as Prometheus and OpenTelemetry would. Readings are made when somebody asks; what is
// counted is counted in plain members. Those of equal name and labels are added up, over parts and over cores.
struct Reading {
  enum class Kind : std::uint8_t { counter, gauge };
  std::string_view name;  // static; readings of one name have one help and one kind
  std::string_view help;  // static
  Kind kind{};
  double value = 0;
  std::string labels{};  // as in `store="pictures",reason="type"`; empty: none
};
using Readings = std::vector<Reading>;

[[nodiscard]] Reading counter(std::string_view name, std::string_view help, double value, std::string labels = {});
[[nodiscard]] Reading gauge(std::string_view name, std::string_view help, double value, std::string labels = {});

// `name="value"`, escaped.
[[nodiscard]] std::string label(std::string_view name, std::string_view value);

// Appends `more`, with `label` before the labels that they have.
void append(Readings& all, Readings more, const std::string& label = {});

}  // namespace sluice
