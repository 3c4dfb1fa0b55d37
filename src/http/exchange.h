#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/task.h"
#include "http/attributes.h"
#include "http/pin.h"
#include "http/request.h"
#include "http/response.h"

namespace sluice::http {

class Filter;

// How an exchange ended.
struct Outcome {
  int status = 499;    // of the response; 499 if the client or the server ended before there was one
  bool broken = true;  // the response was not sent completely
};

// The state of one filter in one exchange, from before() to ended(): a number, or a pointer that ended() frees.
struct Slot {
  std::uintptr_t value = 0;
};

// A request on its way: the request, the attributes that filters have attached to it, and the filters themselves.
//
// An exchange ends in this order, over HTTP/1.1 and HTTP/2 alike: the response's body is destroyed, end() calls ended()
// of each filter, the observer of the server is notified, and reset() clears the attributes and releases the pin.
class Exchange {
 public:
  static constexpr std::size_t max_filters = 16;  // of one route

  Exchange() = default;
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;
  ~Exchange() { end({}); }

  Request request;
  // Keeps alive what the response needs until its body has been sent. An upgrade must itself keep alive what it needs.
  Pin pin;
  Attributes attributes;
  // The methods that the route accepts, as the value of an Allow field. Set before the first before().
  std::string_view allow;

  // Calls before() of each filter in order and returns the first response that one of them gives, if any. `filters`
  // outlives the exchange.
  [[nodiscard]] core::Async<std::optional<Response>> ask(std::span<const std::shared_ptr<Filter>> filters);

  // Whether one of the filters that ask() was called with owns the fields of this name.
  [[nodiscard]] bool owns_field(std::string_view name) const;

  // The code that sends the response calls both once: filter() before it sends, end() when the response has been sent
  // or never will be.
  void filter(Response& response) {
    if (response.status >= 400) [[unlikely]]
      show_error(response);
    if (changing_ != 0) filter_slowly(response);
  }
  void end(Outcome outcome) {
    asked_ = changing_ = 0;
    if (ending_ != 0) end_slowly(outcome);
  }
  // For an upgrade, instead of end(): the filters continue in the returned exchange, which has no request, attributes
  // or pin, and ends when the upgrade does. Null if no filter has ended().
  [[nodiscard]] std::unique_ptr<Exchange> continue_upgraded();
  // Ends the exchange, and clears what filters and the router have found, so that the next request can begin. The
  // response's body must have been destroyed before.
  void reset() {
    end({});
    request.body = nullptr;
    request.extension = {};
    request.route = 0;
    request.own_fields = 0;
    filters_ = {};
    release();
  }
  // The end of reset(), for an upgrade whose request is still in use.
  void release() {
    request.fields = {};  // attributes may own what they refer to
    attributes.clear();
    pin.release();
  }

 private:
  [[nodiscard]] core::Async<std::optional<Response>> ask_next();
  [[nodiscard]] core::Task<std::optional<Response>> ask_rest(core::Task<std::optional<Response>> first);
  // Not inlined: most exchanges have no filters.
  [[gnu::noinline]] void show_error(Response& response) const;
  [[gnu::noinline]] void filter_slowly(Response& response);
  [[gnu::noinline]] void end_slowly(Outcome outcome);

  std::span<const std::shared_ptr<Filter>> filters_;
  std::vector<std::shared_ptr<Filter>> kept_;  // those of an upgrade, which outlive their route
  std::size_t asked_ = 0;                      // number of filters whose before() was called
  std::size_t changing_ = 0;                   // filters up to the last one whose after() must be called
  std::size_t ending_ = 0;                     // filters up to the last one whose ended() must be called
  std::array<Slot, max_filters> slots_;
};

}  // namespace sluice::http
