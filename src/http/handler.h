#pragma once

#include "core/task.h"
#include "http/exchange.h"
#include "http/request.h"
#include "http/response.h"

namespace sluice::http {

// Whom a server hands every exchange to: it finds what answers, and has the filters in front of that asked.
class Dispatcher {
 public:
  virtual ~Dispatcher() = default;
  [[nodiscard]] virtual core::Async<Response> dispatch(Exchange& exchange) = 0;
};

// Answers requests. What can be answered at once returns a Response and costs no coroutine; everything the request
// refers to lasts until the response has been sent. Alone, with no filters, it does for a server.
class Handler : public Dispatcher {
 public:
  [[nodiscard]] virtual core::Async<Response> handle(Request& request) = 0;
  [[nodiscard]] core::Async<Response> dispatch(Exchange& exchange) final { return handle(exchange.request); }
};

}  // namespace sluice::http
