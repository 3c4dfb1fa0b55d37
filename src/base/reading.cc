#include "base/reading.h"

#include <utility>

namespace sluice {

Reading counter(std::string_view name, std::string_view help, double value, std::string labels) {
  return {name, help, Reading::Kind::counter, value, std::move(labels)};
}

Reading gauge(std::string_view name, std::string_view help, double value, std::string labels) {
  return {name, help, Reading::Kind::gauge, value, std::move(labels)};
}

Reading histogram(std::string_view name, std::string_view help, const Histogram& values, std::string labels) {
  return {name, help, Reading::Kind::histogram, 0, std::move(labels), values};
}

std::string label(std::string_view name, std::string_view value) {
  std::string text(name);
  text += "=\"";
  for (const char c : value) {
    if (c == '\n') {
      text += "\\n";
      continue;
    }
    if (c == '"' || c == '\\') text += '\\';
    text += c;
  }
  text += '"';
  return text;
}

void append(Readings& all, Readings more, const std::string& label) {
  for (Reading& reading : more) {
    if (!label.empty()) reading.labels.insert(0, reading.labels.empty() ? label : label + ",");
    all.push_back(std::move(reading));
  }
}

}  // namespace sluice
