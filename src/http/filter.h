#pragma once

#include <cstdint>
#include <optional>

#include "core/task.h"
#include "http/exchange.h"
#include "http/response.h"

namespace sluice::http {

// Stands in front of routes, whatever the method. One core's; it outlives the exchanges that it is asked about.
//
// before() is asked in the order of the route's filters, until one answers; after() and ended() are told in the reverse
// order, to those whose before() was asked. `slot` is one filter's own in one exchange, and zero before before().
class Filter {
 public:
  // Which of these it has: where no filter of a route has more than before(), answers need not be brought to them.
  enum class Parts : std::uint8_t { all, before };
  explicit Filter(Parts parts = Parts::all) : parts(parts) {}
  virtual ~Filter() = default;
  // Nothing: the request goes on. It may note in request.findings what it found out.
  [[nodiscard]] virtual core::Async<std::optional<Response>> before(Exchange&, Slot&) {
    return std::optional<Response>();
  }
  // May change the answer, whoever made it. Not of the calls of a batch, whose answers are parts of one.
  virtual void after(Exchange&, Slot&, Response&) {}
  // Once, on cancellation too. The request may be gone.
  virtual void ended(Exchange&, Slot&, const Outcome&) {}

  // The answer to a CORS preflight, with which browsers send no credentials (Fetch, 4.8), so that before() never sees
  // one. Nothing: another filter may answer it, or else the router does.
  [[nodiscard]] virtual std::optional<Response> preflight(Exchange&) { return std::nullopt; }

  const Parts parts;
};

}  // namespace sluice::http
