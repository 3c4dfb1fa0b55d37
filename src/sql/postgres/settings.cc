#include "sql/postgres/settings.h"

#include <functional>

#include "sql/postgres/messages.h"

namespace sluice::sql::postgres {

Settings::Settings(const Options& options, std::span<const Setting> settings) {
  const auto of_texts = options.prepared ? std::span(text_settings).first(0) : std::span(text_settings);
  count_ = static_cast<std::uint16_t>(of_texts.size() + settings.size());
  std::size_t size = 0;
  for (const auto& [name, value] : of_texts) size += 8 + name.size() + value.size();
  for (const Setting& setting : settings) size += 8 + setting.name.size() + setting.value.size();
  parameters_.resize(size);
  char* at = parameters_.data();
  for (const auto& [name, value] : of_texts) at = put_parameter(put_parameter(at, name), value);
  for (const Setting& setting : settings) {
    at = put_parameter(at, setting.name);
    at = put_parameter(at, setting.value);
    // Two roles with one number would share plans, which the server then makes anew whenever the role changes.
    if (setting.name == "role") role_ = static_cast<std::uint32_t>(std::hash<std::string>{}(setting.value)) | 1;
  }
}

void write_command(Buffer& out, std::string_view sql, std::uint16_t count, std::string_view parameters) {
  write_parse(out, {}, sql, {});
  write_bind(out, {}, count, parameters);
  write_execute(out, 0);
}

}  // namespace sluice::sql::postgres
