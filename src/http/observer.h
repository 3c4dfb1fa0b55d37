#pragma once

#include <cstdint>
#include <string_view>

#include "base/time.h"
#include "http/exchange.h"
#include "http/request.h"

namespace sluice::http {

// Describes one answered request, for logs and metrics.
struct Completion {
  const Exchange* exchange = nullptr;  // null: the received bytes were not a valid request (400, 408, 431 ...)
  Method method = Method::other;       // set for an invalid request too if it was recognized
  bool secure = false;                 // the request came over TLS
  std::string_view peer;               // the client's address, without its port
  int status = 0;
  std::uint64_t body_bytes = 0;  // sent, without framing
  Duration duration{};           // from the last byte of the request's head to the last byte of the response
  bool broken = false;           // the response was cut by the handler's stream or by the client
};
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void completed(const Completion& completion) = 0;
};

}  // namespace sluice::http
