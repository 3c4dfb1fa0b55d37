#pragma once

#include "core/task.h"
#include "http/exchange.h"
#include "http/response.h"

namespace sluice::http {

// Answers exchanges: a router, a handler of a route, or the dispatcher that the server passes every exchange to. A
// handler that can answer at once returns a Response and needs no coroutine. The exchange, and everything that its
// request refers to, lives until the response has been sent.
class Handler {
 public:
  virtual ~Handler() = default;
  [[nodiscard]] virtual core::Async<Response> handle(Exchange& exchange) = 0;
};

}  // namespace sluice::http
