#include "app/log/log_text.h"

#include <ctime>
#include <iterator>

#include <fmt/format.h>

namespace sluice::app {

void append_log_string(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte >= 0x7f) {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", byte);
    } else {
      out += c;
    }
  }
  out += '"';
}

void append_log_time(std::string& out, std::int64_t unix_ns) {
  const std::time_t seconds = unix_ns / 1'000'000'000;
  tm parts{};
  gmtime_r(&seconds, &parts);
  char stamp[32];
  const std::size_t size = std::strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &parts);
  fmt::format_to(std::back_inserter(out), "{}.{:03}Z", std::string_view(stamp, size), unix_ns / 1'000'000 % 1000);
}

}  // namespace sluice::app
