#pragma once

#include <expected>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "app/suite/response.h"
#include "app/suite/signals.h"
#include "base/time.h"
#include "core/address.h"

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

// Sends a request on a connection of its own and reads the answer. Blocks, until `deadline` or a signal; at most 10 s
// of that to connect. An error is a sentence.
[[nodiscard]] std::expected<Answer, std::string> send_request(const core::Address& server, const RequestText& request,
                                                              Instant deadline, Signals& signals);

// Whether a server accepts connections on this unix socket.
[[nodiscard]] bool can_connect(const core::Address& server);

// The monotonic clock.
[[nodiscard]] Instant now();

}  // namespace sluice::app::suite
