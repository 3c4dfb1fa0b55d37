#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "core/task.h"
#include "http/pin.h"
#include "http/request.h"
#include "http/response.h"

namespace sluice::http {

class Filter;

// What became of an exchange.
struct Outcome {
  int status = 499;    // of the answer; 499: there was none, because the client or the server ended before
  bool broken = true;  // it did not go out whole
};

// What a filter keeps of an exchange from before() to ended(): a number, or a pointer to what it frees in ended().
struct Slot {
  std::uintptr_t value = 0;
};

// A request on its way, and the filters in front of its route.
class Exchange {
 public:
  static constexpr std::size_t max_filters = 16;  // of one route

  Exchange() = default;
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;
  ~Exchange() { end({}); }

  Request request;
  // What the answer needs until it has ended, its body included. What follows an upgrade keeps what it needs itself.
  Pin pin;
  // The methods that the route takes, as an Allow field lists them; from before() on.
  std::string_view allow;

  // Asks the filters one after the other. An answer: that of the first that has one. `filters` outlives the exchange.
  [[nodiscard]] core::Async<std::optional<Response>> ask(std::span<Filter* const> filters);

  // For whoever sends the answer, once each: before it is sent, and when it has been sent or never will be.
  void filter(Response& response) {
    if (told_ != 0) filter_slowly(response);
  }
  void end(Outcome outcome) {
    asked_ = 0;
    if (told_ != 0) end_slowly(outcome);
  }
  // Ends it, and forgets what filters and the router found: ready for the next request. The response is gone before.
  void reset() {
    end({});
    request.body = nullptr;
    request.extension = {};
    request.route = 0;
    request.findings = {};
    pin.release();
  }

 private:
  [[nodiscard]] core::Async<std::optional<Response>> ask_next();
  [[nodiscard]] core::Task<std::optional<Response>> ask_rest(core::Task<std::optional<Response>> first);
  // Not inlined: most exchanges have no filters.
  [[gnu::noinline]] void filter_slowly(Response& response);
  [[gnu::noinline]] void end_slowly(Outcome outcome);

  std::span<Filter* const> filters_;
  std::size_t asked_ = 0;  // filters, of which before() was called
  std::size_t told_ = 0;   // of these, up to the last one that has more than before()
  std::array<Slot, max_filters> slots_;
};

}  // namespace sluice::http
