#pragma once

#include <expected>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "app/suite/response.h"
#include "app/suite/signals.h"
#include "base/time.h"

namespace sluice::app::suite {

struct RequestText {
  std::string method;
  std::string target;
  std::vector<std::pair<std::string, std::string>> fields;
  std::string body;
  bool has_body = false;
};

// As it goes out. An error is a sentence: a field that would not be one.
[[nodiscard]] std::expected<std::string, std::string> write_request(const RequestText& request);

// Sends a request to a unix socket on a connection of its own and reads the answer. Blocks, until `deadline` or a
// signal. An error is a sentence.
[[nodiscard]] std::expected<Answer, std::string> send_request(const std::string& socket_path,
                                                              const RequestText& request, Instant deadline,
                                                              Signals& signals);

// Whether somebody accepts connections there.
[[nodiscard]] bool can_connect(const std::string& socket_path);

// The monotonic clock.
[[nodiscard]] Instant now();

}  // namespace sluice::app::suite
