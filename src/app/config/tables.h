#pragma once

#include <string_view>
#include <tuple>

#include "base/declare.h"

// Lists of kinds, of routes (routes/kinds.h) and of components (components/kinds.h): each kind is a struct with its
// tables of the configuration, which Options derives from.
namespace sluice::app {

// Calls `fn.operator()<Kind>()` for each kind of the tuple `Kinds`.
template <class Kinds, class Fn>
void for_each_kind(Fn fn) {
  [&]<class... Kind>(std::tuple<Kind...>*) { (fn.template operator()<Kind>(), ...); }(static_cast<Kinds*>(nullptr));
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
}  // namespace detail

// Calls fn(table) for each table of the kind. `options`: Options, or const Options.
template <class Kind, class Tables, class Fn>
void for_each_table(Tables& options, Fn fn) {
  detail::EachTable<Tables, Fn> visitor{options, fn};
  Kind::declare(visitor);
}

template <class Kinds>
struct TablesOf;

// The tables of all kinds, as bases, so that each keeps its names.
template <class... Kinds>
struct TablesOf<std::tuple<Kinds...>> : Kinds... {
  // `Self` derives from this.
  template <class Self, class Visitor>
  static void declare(Visitor& v) {
    detail::AsMembersOf<Self, Visitor> visitor{v};
    (Kinds::declare(visitor), ...);
  }
};

}  // namespace sluice::app
