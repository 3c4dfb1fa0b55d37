#pragma once

#include "core/task.h"
#include "http/exchange.h"
#include "http/request.h"
#include "http/response.h"

namespace sluice::http {

// The server passes every exchange to a dispatcher. The dispatcher runs the filters of the route and then its handler.
class Dispatcher {
 public:
  virtual ~Dispatcher() = default;
  [[nodiscard]] virtual core::Async<Response> dispatch(Exchange& exchange) = 0;
};

// Answers requests. A handler that can answer at once returns a Response and needs no coroutine. Everything that the
// request refers to lives until the response has been sent. A handler can also serve as the dispatcher of a server
// without filters.
class Handler : public Dispatcher {
 public:
  [[nodiscard]] virtual core::Async<Response> handle(Request& request) = 0;
  [[nodiscard]] core::Async<Response> dispatch(Exchange& exchange) final { return handle(exchange.request); }
};

}  // namespace sluice::http
