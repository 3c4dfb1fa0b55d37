#include "app/access_log.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <string>

namespace sluice::app {
namespace {

// What a peer sent may hold any byte; a line stays one line of valid JSON.
void append_string(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte >= 0x7f) {
      out += fmt::format("\\u{:04x}", byte);
    } else {
      out += c;
    }
  }
  out += '"';
}

}  // namespace

void AccessLog::add(const http::Completion& completion) {
  const std::int64_t now_ns = reactor_.wall_clock_ns();
  const std::time_t seconds = now_ns / 1'000'000'000;
  tm parts{};
  gmtime_r(&seconds, &parts);
  char stamp[32];
  const std::size_t stamp_size = std::strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &parts);

  std::string line = fmt::format(R"({{"time":"{}.{:03}Z","client":)", std::string_view(stamp, stamp_size),
                                 now_ns / 1'000'000 % 1000);
  append_string(line, completion.peer);
  if (const http::Request* request = completion.request) {
    line += R"(,"method":)";
    append_string(line, request->method_text);
    line += R"(,"target":)";
    append_string(line, request->target);
    line += R"(,"host":)";
    append_string(line, request->authority);
    line += R"(,"user_agent":)";
    append_string(line, request->field("user-agent"));
  }
  line += fmt::format(R"(,"status":{},"bytes":{},"duration_us":{})", completion.status, completion.body_bytes,
                      std::chrono::duration_cast<std::chrono::microseconds>(completion.duration).count());
  if (completion.broken) line += R"(,"broken":true)";
  line += "}\n";
  lines_.append(line);
  reactor_.at_turn_end(flush_);
}

void AccessLog::flush() {
  while (!lines_.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, lines_.data(), lines_.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {  // nobody reads the log any more: requests go on
      lines_.clear();
      return;
    }
    lines_.consume(static_cast<std::size_t>(written));
  }
}

}  // namespace sluice::app
