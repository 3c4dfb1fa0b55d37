#pragma once

#include <sys/uio.h>

#include "base/buffer.h"
#include "http/exchange.h"
#include "http/h1/parser.h"
#include "http/response.h"

namespace sluice::http::h1 {

// The buffers and state that a connection needs only while it serves a request. The server lends them, and an idle
// connection gives them back.
struct Workspace {
  explicit Workspace(const RequestLimits& limits) : parser(exchange.request, limits) {}

  void forget_request() {
    if (parser.in_request()) exchange.reset();  // otherwise it was reset before, and no request has begun since
    parser.reset();
  }

  Buffer input;    // received: the current request's head and the bytes after it
  Buffer body;     // received: the bytes after the head of a request that has a body
  Buffer output;   // responses that have not been written yet
  iovec parts[2];  // the buffers that are being written
  Exchange exchange;
  RequestParser parser;
  const Body* sending = nullptr;  // a long response body that is being sent
  bool outdated = false;          // the server's limits have changed
};

}  // namespace sluice::http::h1
