#pragma once

#include <compare>
#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/time.h"

// How a module declares its options: once, beside the plain struct that holds them. The TOML reader, `sluice check` and
// the reference page are visitors of this declaration.
//
//   enum class Returns : std::uint8_t { rows, object };
//   inline NameOf<Returns> names_of(Returns) { return {{"rows", Returns::rows}, {"object", Returns::object}}; }
//
//   struct EndpointOptions {
//     Located<std::string> path;
//     Returns returns = Returns::rows;
//     Duration timeout = 30s;
//     ByteSize limit = 1_MiB;
//     std::vector<Named<ParamOptions>> params;
//     Position position;
//
//     template <class Visitor>
//     static void declare(Visitor& v) {
//       v.field("path", &EndpointOptions::path, "Where it is served.", {.required = true, .check = check_path});
//       v.field("returns", &EndpointOptions::returns, "`rows`: an array; `object`: exactly one row.");
//       v.field("timeout", &EndpointOptions::timeout, "How long the statement may take.", {.min = 1ms, .max = 1h});
//       v.field("limit", &EndpointOptions::limit, "...", {.min = 1_KiB});
//       v.field("params", &EndpointOptions::params, "The statement's parameters by name.");
//       v.position(&EndpointOptions::position);
//     }
//   };
//
// The types that a field may have, and how their values are written in TOML:
//
//   bool, any integer, double   true, 42, 0.5
//   std::string                 "text", with ${NAME} and ${NAME:-default} from the environment
//   an enum with names_of()     "rows"
//   Duration                    "250ms", "10s", "1m", "1h30m" (us, ms, s, m, h, d)
//   ByteSize                    "16KiB", "1MiB", "2GiB", or a plain number of bytes
//   Scalar                      a string, integer, float or boolean, kept as its text
//   app::config::Value          any value that JSON can hold, kept as it is (in test files)
//   JsonOrFile                  JSON: a table, a string that begins with "{", or the path of a file
//   std::optional<T>            as T; absent is nullopt
//   Located<T>                  as T, with its position in the file
//   std::vector<T>              a list of T; of declared structs: [[key]]
//   a declared struct           a table: [key]
//   OneOrMore<T>                a T, or a list of T
//   std::vector<Named<T>>       a table of T by name: [key.NAME], or key.NAME = ...; in the order of the file
//
// What the visitor offers in addition to field():
//
//   v.position(&S::position)    where the table begins in the file
//   v.variant(&S::type, Type::a, &S::a, "meaning")
//                               if `type` is Type::a, the same table has the keys of the struct S::a
//   v.shorthand("type")         a plain value is accepted for a table with only this key
namespace sluice {

// A position in the configuration. Lines and columns count from 1, columns in characters. Line 0: the value does not
// come from a file. `file` is 0 for the main file, and counts the files that it includes. Positions are ordered by file
// first.
struct Position {
  std::uint32_t line = 0;
  std::uint32_t column = 0;
  std::uint32_t file = 0;

  friend constexpr bool operator==(const Position&, const Position&) = default;
  friend constexpr auto operator<=>(const Position& a, const Position& b) {
    if (const auto by_file = a.file <=> b.file; by_file != 0) return by_file;
    if (const auto by_line = a.line <=> b.line; by_line != 0) return by_line;
    return a.column <=> b.column;
  }
};

// A value with its position, because later stages may report an error in it.
template <class T>
struct Located {
  T value{};
  Position position;

  Located() = default;
  Located(T initial, Position where = {}) : value(std::move(initial)), position(where) {}
  Located(const char* text)
    requires std::is_same_v<T, std::string>
      : value(text) {}
  operator const T&() const { return value; }
};

// An entry of a table of names: [database.main] has the name "main".
template <class T>
struct Named {
  Located<std::string> name;
  T value{};
};

// A value or a list of values. Empty if the key is absent.
template <class T>
struct OneOrMore {
  std::vector<T> items;
};

struct ByteSize {
  std::uint64_t bytes = 0;

  constexpr operator std::uint64_t() const { return bytes; }
};

// The text of a string, integer, float or boolean.
struct Scalar {
  std::string text;
};

// A JSON object, given in place or as the path of a file.
struct JsonOrFile {
  std::string json;
  std::string file;  // empty if the JSON is in the configuration itself
};

inline namespace literals {
constexpr ByteSize operator""_B(unsigned long long count) { return {count}; }
constexpr ByteSize operator""_KiB(unsigned long long count) { return {count << 10}; }
constexpr ByteSize operator""_MiB(unsigned long long count) { return {count << 20}; }
constexpr ByteSize operator""_GiB(unsigned long long count) { return {count << 30}; }
}  // namespace literals

// A bound of the allowed range, in the field's own unit: a number, nanoseconds, bytes. If it is not set, there is no
// bound.
struct Bound {
  std::optional<std::int64_t> value;

  constexpr Bound() = default;
  template <class T>
    requires std::is_integral_v<T>
  constexpr Bound(T number) : value(static_cast<std::int64_t>(number)) {}
  template <class Rep, class Period>
  constexpr Bound(std::chrono::duration<Rep, Period> duration)
      : value(std::chrono::duration_cast<Duration>(duration).count()) {}
  constexpr Bound(ByteSize size) : value(static_cast<std::int64_t>(size.bytes)) {}
};

struct Rules {
  Bound min = {};  // for numbers, durations and sizes; for a list: the number of elements
  Bound max = {};
  // The key must be present. A required string or list must not be empty.
  bool required = false;
  // An additional check of a string, or of each string in a list. Returns an error text ("must begin with '/'"), or an
  // empty text. The error text does not repeat the value, which may hold a secret.
  std::string (*check)(std::string_view text) = nullptr;
};

// The names of an enum's values in the file, returned by a `names_of(Enum)` beside the enum.
template <class Enum>
using NameOf = std::vector<std::pair<std::string_view, Enum>>;

template <class T>
concept NamedEnum = std::is_enum_v<T> && requires(T value) {
  { names_of(value) } -> std::same_as<NameOf<T>>;
};

namespace detail {
// Stands for any visitor in the concept below.
struct AnyVisitor {
  template <class S, class T>
  void field(std::string_view, T S::*, std::string_view, const Rules& = {}) {}
  template <class S>
  void position(Position S::*) {}
  template <class S, class E, class T>
  void variant(Located<E> S::*, E, T S::*, std::string_view) {}
  void shorthand(std::string_view) {}
};
}  // namespace detail

template <class T>
concept Declared = std::is_class_v<T> && requires(detail::AnyVisitor& visitor) { T::declare(visitor); };

}  // namespace sluice
