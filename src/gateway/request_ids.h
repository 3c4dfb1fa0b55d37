#pragma once

#include <array>
#include <cstddef>
#include <string>

#include "gateway/changed_request.h"
#include "http/exchange.h"

namespace sluice::gateway {

// Gives requests their ids.
class RequestIds {
 public:
  // Does nothing if the request has an id. Otherwise its id is the X-Request-Id or the trace id from a trusted proxy,
  // or a new one. `changed` owns its text.
  void give(http::Exchange& exchange, ChangedRequest& changed);

 private:
  void append_id(const http::Request& request, std::string& text);

  std::array<unsigned char, 1024> random_{};
  std::size_t used_random_ = random_.size();
};

}  // namespace sluice::gateway
