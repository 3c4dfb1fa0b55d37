#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>

#include "core/task.h"
#include "http/exchange.h"
#include "http/response.h"

namespace sluice::http {

// Runs before and after the handlers of routes, for every method. A filter belongs to one core, lives as long
// as its exchanges; upgraded ones keep it alive.
//
// before() is called in the order of the route's filters until one returns a response. after() and ended() are called
// in the reverse order, on the filters whose before() was called. Each filter has its own `slot` in each exchange; it
// is zero when before() is called.
class Filter {
 public:
  // The functions that a filter may override: all three, before() and after(), or before() alone. Exchanges skip those
  // that no filter of the route has.
  enum class Parts : std::uint8_t { all, response, before };
  template <class Self>
  [[nodiscard]] static consteval Parts parts_of() {
    if (!std::is_same_v<decltype(&Self::ended), decltype(&Filter::ended)>) return Parts::all;
    if (!std::is_same_v<decltype(&Self::after), decltype(&Filter::after)>) return Parts::response;
    return Parts::before;
  }
  virtual ~Filter() = default;
  // Returns nothing to let the request continue. May attach what it found to exchange.attributes.
  [[nodiscard]] virtual core::Async<std::optional<Response>> before(Exchange&, Slot&) {
    return std::optional<Response>();
  }
  // May change the response, also one that another filter made. Not called for the single calls of a batch, because
  // their responses become parts of one response.
  virtual void after(Exchange&, Slot&, Response&) {}
  // Called once, also on cancellation: when the response has ended, or, for an upgrade, when the upgrade has. Then the
  // exchange has no request and no attributes any more.
  virtual void ended(Exchange&, Slot&, const Outcome&) {}

  // Whether the filter sets, removes or checks the fields of this name in requests, also in those that it lets pass
  // without doing so. Such a field is not taken from trailers, which come after before() has run.
  [[nodiscard]] virtual bool owns_field(std::string_view) const { return false; }

  // The response to a CORS preflight. Browsers send it without credentials (Fetch, 4.8), so before() is not called for
  // it. If this returns nothing, another filter or the router answers.
  [[nodiscard]] virtual std::optional<Response> preflight(Exchange&) { return std::nullopt; }

  const Parts parts;

 protected:
  // Filters derive from FilterOf. A filter that wraps another one has the parts of that one.
  explicit Filter(Parts parts) : parts(parts) {}
};

// The base of the filter `Self`: finds out which functions it overrides. `Base`: Filter, or derived from it.
template <class Self, class Base = Filter>
class FilterOf : public Base {
 protected:
  FilterOf() : Base(Filter::parts_of<Self>()) {
    static_assert(std::is_final_v<Self>, "a class derived from Self could override more");
  }
};

}  // namespace sluice::http
