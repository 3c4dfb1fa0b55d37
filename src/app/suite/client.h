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

// The request as it is sent. An error is a sentence about a field that is not valid.
[[nodiscard]] std::expected<std::string, std::string> write_request(const RequestText& request);

// Sends a request on a new connection and reads the answer. Blocks until `deadline` or a signal; connecting may take at
// most 10 s. An error is a sentence.
[[nodiscard]] std::expected<Answer, std::string> send_request(const core::Address& server, const RequestText& request,
                                                              Instant deadline, Signals& signals);

// Whether a server accepts connections on this unix socket.
[[nodiscard]] bool can_connect(const core::Address& server);

// The monotonic clock.
[[nodiscard]] Instant now();

}  // namespace sluice::app::suite
