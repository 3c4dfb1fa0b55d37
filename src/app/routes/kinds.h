#pragma once

#include <string_view>
#include <tuple>

#include "app/routes/batch/tables.h"
#include "app/routes/endpoint/tables.h"
#include "app/routes/files/tables.h"
#include "app/routes/gateway/tables.h"
#include "app/routes/openapi/tables.h"
#include "app/routes/resident/tables.h"
#include "app/routes/websocket/tables.h"

namespace sluice::app {

// All kinds of route, in the order of the reference, in which they are also checked and prepared. [batch] needs the
// routes before it, and [openapi] describes them.
using RouteKinds =
    std::tuple<EndpointTables, ResidentTables, FilesTables, WebSocketTables, GatewayTables, BatchTable, OpenApiTable>;

// Calls `fn.operator()<Kind>()` for each kind.
template <class Fn>
void for_each_route_kind(Fn fn) {
  [&]<class... Kinds>(std::tuple<Kinds...>*) {
    (fn.template operator()<Kinds>(), ...);
  }(static_cast<RouteKinds*>(nullptr));
}

namespace detail {
template <class Tables, class Fn>
struct EachTable {
  Tables& tables;
  Fn& fn;

  template <class Kind, class T>
  void field(std::string_view, T Kind::* member, std::string_view, const Rules& = {}) {
    auto& of_kind = tables.*member;
    if constexpr (requires { of_kind.has_value(); }) {
      if (of_kind) fn(*of_kind);
    } else {
      for (auto& table : of_kind) fn(table);
    }
  }
};

// Passes the members of a base of `Self` to a visitor of `Self`.
template <class Self, class Visitor>
struct AsMembersOf {
  Visitor& visitor;

  template <class Kind, class T>
  void field(std::string_view key, T Kind::* member, std::string_view meaning, const Rules& rules = {}) {
    visitor.field(key, static_cast<T Self::*>(member), meaning, rules);
  }
};

template <class Kinds>
struct TablesOf;

// The tables of all kinds, as bases, so that each keeps its names.
template <class... Kinds>
struct TablesOf<std::tuple<Kinds...>> : Kinds... {
  // `Self` derives from this.
  template <class Self, class Visitor>
  static void declare(Visitor& v) {
    AsMembersOf<Self, Visitor> visitor{v};
    (Kinds::declare(visitor), ...);
  }
};
}  // namespace detail

// Calls fn(table) for each table of the kind. `options`: Options, or const Options.
template <class Kind, class Tables, class Fn>
void for_each_table(Tables& options, Fn fn) {
  detail::EachTable<Tables, Fn> visitor{options, fn};
  Kind::declare(visitor);
}

using RouteTables = detail::TablesOf<RouteKinds>;

}  // namespace sluice::app
