#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/declare.h"

// Compares two declared structs, ignoring the positions in their files.
namespace sluice::app::config {

namespace detail {
template <Declared S>
class Comparison;

// The overloads call each other, so they are members of one struct.
struct Same {
  template <class T>
  static bool same(const T& a, const T& b) {
    if constexpr (Declared<T>) {
      Comparison<T> comparison(a, b);
      T::declare(comparison);
      return comparison.first.empty();
    } else {
      return a == b;
    }
  }
  static bool same(const ByteSize& a, const ByteSize& b) { return a.bytes == b.bytes; }
  static bool same(const Scalar& a, const Scalar& b) { return a.text == b.text; }
  static bool same(const JsonOrFile& a, const JsonOrFile& b) { return a.json == b.json && a.file == b.file; }
  template <class T>
  static bool same(const Located<T>& a, const Located<T>& b) {
    return same(a.value, b.value);
  }
  template <class T>
  static bool same(const Named<T>& a, const Named<T>& b) {
    return a.name.value == b.name.value && same(a.value, b.value);
  }
  template <class T>
  static bool same(const std::optional<T>& a, const std::optional<T>& b) {
    return a.has_value() == b.has_value() && (!a || same(*a, *b));
  }
  template <class T>
  static bool same(const std::vector<T>& a, const std::vector<T>& b) {
    if (a.size() != b.size()) return false;
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (!same<>(a[i], b[i])) return false;
    }
    return true;
  }
  template <class T>
  static bool same(const OneOrMore<T>& a, const OneOrMore<T>& b) {
    return same(a.items, b.items);
  }
};

template <Declared S>
class Comparison {
 public:
  Comparison(const S& a, const S& b) : a_(a), b_(b) {}

  template <class T>
  void field(std::string_view key, T S::* member, std::string_view, const Rules& = {}) {
    if (first.empty() && !Same::same(a_.*member, b_.*member)) first = key;
  }
  template <class E, class T>
  void variant(Located<E> S::*, E, T S::* member, std::string_view) {
    if (!first.empty()) return;
    Comparison<T> below(a_.*member, b_.*member);
    T::declare(below);
    first = below.first;
  }
  void position(Position S::*) {}
  void shorthand(std::string_view) {}

  std::string_view first;

 private:
  const S& a_;
  const S& b_;
};
}  // namespace detail

template <class T>
[[nodiscard]] bool same(const T& a, const T& b) {
  return detail::Same::same(a, b);
}

// The first key whose values differ; empty if the structs are the same.
template <Declared S>
[[nodiscard]] std::string_view first_difference(const S& a, const S& b) {
  detail::Comparison<S> comparison(a, b);
  S::declare(comparison);
  return comparison.first;
}

}  // namespace sluice::app::config
