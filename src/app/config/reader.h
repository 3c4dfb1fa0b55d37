#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "app/config/document.h"
#include "app/config/source.h"
#include "app/config/text.h"
#include "base/declare.h"

// Reads TOML values into declared structs. A wrong value is reported and its field keeps its default, so that one pass
// finds every error.
namespace sluice::app::config {

// The names of a value in messages: its key from the root ("server.cores"; empty for the root itself) and, if the value
// is a table, its heading ("[server]").
struct Place {
  std::string key;
  std::string table;

  [[nodiscard]] std::string child(std::string_view name) const {
    return key.empty() ? std::string(name) : key + "." + std::string(name);
  }
};

namespace detail {
struct KeyLister {
  template <class S, class T>
  void field(std::string_view key, T S::*, std::string_view, const Rules& = {}) {
    keys.push_back(key);
  }
  template <class S>
  void position(Position S::*) {}
  template <class S, class E, class T>
  void variant(Located<E> S::*, E, T S::*, std::string_view) {
    T::declare(*this);
  }
  void shorthand(std::string_view) {}

  std::vector<std::string_view> keys;
};

template <Declared S>
std::vector<std::string_view> keys_of() {
  KeyLister lister;
  S::declare(lister);
  return lister.keys;
}

// Finds the tables below a struct's own table that have a given key. They are named as in messages.
struct KeyFinder {
  std::string_view wanted;
  std::string place = {};
  std::vector<std::string> found = {};

  template <class S, class T>
  void field(std::string_view key, T S::*, std::string_view, const Rules& = {}) {
    below(std::type_identity<T>(), place.empty() ? std::string(key) : place + "." + std::string(key), false);
  }
  template <class S, class E, class T>
  void variant(Located<E> S::*, E, T S::*, std::string_view) {
    T::declare(*this);
  }
  template <class S>
  void position(Position S::*) {}
  void shorthand(std::string_view) {}

 private:
  template <class T>
  void below(std::type_identity<T>, const std::string& key, bool list) {
    if constexpr (Declared<T>) {
      const auto keys = keys_of<T>();
      if (std::ranges::find(keys, wanted) != keys.end()) found.push_back(list ? "[[" + key + "]]" : "[" + key + "]");
      const std::string outer = std::exchange(place, key);
      T::declare(*this);
      place = outer;
    }
  }
  template <class T>
  void below(std::type_identity<std::optional<T>>, const std::string& key, bool list) {
    below(std::type_identity<T>(), key, list);
  }
  template <class T>
  void below(std::type_identity<std::vector<T>>, const std::string& key, bool) {
    below(std::type_identity<T>(), key, true);
  }
  template <class T>
  void below(std::type_identity<Named<T>>, const std::string& key, bool) {
    below(std::type_identity<T>(), key + ".NAME", false);
  }
};
}  // namespace detail

// The value's name in the file.
template <NamedEnum E>
std::string_view name_of_value(E wanted) {
  for (const auto& [name, value] : names_of(wanted)) {
    if (value == wanted) return name;
  }
  return {};
}

template <Declared S>
bool is_key_of(std::string_view key) {
  const auto keys = detail::keys_of<S>();
  return std::ranges::find(keys, key) != keys.end();
}

// The message `"get" is a key of [[endpoint]]; it stands below [endpoint.post]`, and its hint.
[[nodiscard]] std::string misplaced(std::string_view key, std::string_view table, std::string_view below);
[[nodiscard]] std::string move_above(std::string_view table);

class Reader {
 public:
  explicit Reader(std::vector<Diagnostic>& errors) : errors_(errors) {}

  template <Declared S>
  void read(const Value& root, S& out) {
    elsewhere_ = [](std::string_view key) {
      detail::KeyFinder finder{.wanted = key};
      S::declare(finder);
      return finder.found;
    };
    read_table(root, Place{}, out);
  }

 private:
  template <class S>
  class Table;

  // Returns false if the value is not a table.
  template <Declared S>
  bool read_table(const Value& value, const Place& place, S& out);

  // These read scalars. They return false if they have reported an error; `out` is then unchanged.
  bool read_value(const Value& value, const std::string& key, const Rules& rules, bool& out);
  bool read_value(const Value& value, const std::string& key, const Rules& rules, double& out);
  bool read_value(const Value& value, const std::string& key, const Rules& rules, std::string& out);
  bool read_value(const Value& value, const std::string& key, const Rules& rules, Duration& out);
  bool read_value(const Value& value, const std::string& key, const Rules& rules, ByteSize& out);
  bool read_value(const Value& value, const std::string& key, const Rules& rules, Scalar& out);
  bool read_value(const Value& value, const std::string& key, const Rules& rules, Value& out);
  bool read_value(const Value& value, const std::string& key, const Rules& rules, JsonOrFile& out);
  bool read_integer(const Value& value, const std::string& key, std::int64_t min, std::int64_t max, std::int64_t& out);
  std::optional<std::size_t> read_name(const Value& value, const std::string& key,
                                       const std::vector<std::string_view>& names);

  template <std::integral T>
  bool read_value(const Value& value, const std::string& key, const Rules& rules, T& out) {
    static_assert(sizeof(T) < sizeof(std::int64_t) || std::is_signed_v<T>, "TOML's integers are int64");
    std::int64_t number = 0;
    std::int64_t min = std::max<std::int64_t>(std::numeric_limits<T>::min(), rules.min.value.value_or(INT64_MIN));
    std::int64_t max = std::min<std::int64_t>(std::numeric_limits<T>::max(), rules.max.value.value_or(INT64_MAX));
    if (!read_integer(value, key, min, max, number)) return false;
    out = static_cast<T>(number);
    return true;
  }

  template <NamedEnum T>
  bool read_value(const Value& value, const std::string& key, const Rules&, T& out) {
    const NameOf<T> all = names_of(T{});
    std::vector<std::string_view> names;
    for (const auto& [name, one] : all) names.push_back(name);
    auto index = read_name(value, key, names);
    if (index) out = all[*index].second;
    return index.has_value();
  }

  template <class T>
  bool read_value(const Value& value, const std::string& key, const Rules& rules, Located<T>& out) {
    out.position = value.position;
    return read_value(value, key, rules, out.value);
  }

  template <class T>
  bool read_value(const Value& value, const std::string& key, const Rules& rules, std::optional<T>& out) {
    T read{};
    if (!read_value(value, key, rules, read)) return false;
    out = std::move(read);
    return true;
  }

  template <Declared T>
  bool read_value(const Value& value, const std::string& key, const Rules&, T& out) {
    return read_table(value, {key, "[" + key + "]"}, out);
  }

  template <class T>
  bool read_value(const Value& value, const std::string& key, const Rules& rules, std::vector<T>& out) {
    if (!is_list(value, key, rules, Declared<T>)) return false;
    out.clear();
    for (const Value& item : value.items) {
      T read{};
      if constexpr (Declared<T>) {
        if (!read_table(item, {key, "[[" + key + "]]"}, read)) continue;
      } else if (!read_value(item, key, {.check = rules.check}, read)) {
        continue;
      }
      out.push_back(std::move(read));
    }
    return true;
  }

  template <class T>
  bool read_value(const Value& value, const std::string& key, const Rules& rules, OneOrMore<T>& out) {
    if (value.kind == Value::Kind::list) {
      return read_value(value, key, {.required = true, .check = rules.check}, out.items);
    }
    T read{};
    if (!read_value(value, key, rules, read)) return false;
    out.items = {std::move(read)};
    return true;
  }

  template <class T>
  bool read_value(const Value& value, const std::string& key, const Rules&, std::vector<Named<T>>& out) {
    if (!is_table_of_names(value, key)) return false;
    out.clear();
    for (const Entry& entry : value.entries) {
      Named<T> read{.name = entry.key, .value = {}};
      const std::size_t before = errors_.size();
      read_value(entry.value, key + "." + entry.key.value, {}, read.value);
      if (errors_.size() > before && is_misplaced(entry, key, before)) continue;
      out.push_back(std::move(read));
    }
    return true;
  }

  bool is_list(const Value& value, const std::string& key, const Rules& rules, bool of_tables);
  bool is_table_of_names(const Value& value, const std::string& key);
  bool complain(Position position, std::string message, std::string hint = {});  // always false
  bool wrong_kind(const Value& value, const std::string& key, std::string_view wanted, std::string hint = {});
  void missing(Position position, const Place& place, std::string_view key);
  // Of the first `count` scopes, the innermost table that has the key; null if none has it.
  const std::string* owner_of(std::string_view key, std::size_t count) const;
  // Whether a refused entry of a table of names is really a key of an enclosing table. If so, that becomes the only
  // error.
  bool is_misplaced(const Entry& entry, const std::string& table, std::size_t first_error);
  void unknown(const Entry& entry, const Place& place, const std::vector<std::string_view>& known);
  // Reports a key that only tables of another `type` have.
  void not_of_type(const Entry& entry, const Place& place, std::string_view type);

  std::vector<Diagnostic>& errors_;
  struct Scope {
    std::string table;
    std::vector<std::string_view> keys;
  };
  std::vector<Scope> scopes_;  // the tables that are being read, the outermost first
  std::vector<std::string> (*elsewhere_)(std::string_view key) = nullptr;  // the tables that have a key
};

// The visitor: reads one table into a struct.
template <class S>
class Reader::Table {
 public:
  Table(Reader& reader, const Value& value, const Place& place, S& out)
      : reader_(reader), value_(value), place_(place), out_(out) {}

  template <class T>
  void field(std::string_view key, T S::* member, std::string_view /*meaning*/, const Rules& rules = {}) {
    known_.push_back(key);
    if (const Entry* entry = find(key)) {
      if (!entry->value.broken) reader_.read_value(entry->value, place_.child(key), rules, out_.*member);
    } else if (rules.required) {
      reader_.missing(value_.position, place_, key);
    }
  }
  // `type` must be declared before its variants, so that it has been read.
  template <class E, class T>
  void variant(Located<E> S::* type, E wanted, T S::* member, std::string_view /*meaning*/) {
    const std::vector<std::string_view> keys = detail::keys_of<T>();
    const Position place = (out_.*type).position;
    const bool is_wrong = std::ranges::find(reader_.errors_, place, &Diagnostic::position) != reader_.errors_.end();
    if (place == Position{} || is_wrong) {  // already reported
      known_.insert(known_.end(), keys.begin(), keys.end());
    } else if ((out_.*type).value == wanted) {
      Table<T> same(reader_, value_, place_, out_.*member);
      T::declare(same);
      known_.insert(known_.end(), keys.begin(), keys.end());
    } else {
      for (const std::string_view key : keys) elsewhere_.emplace_back(key, name_of_value(wanted));
    }
  }
  void position(Position S::* member) { out_.*member = value_.position; }
  void shorthand(std::string_view) {}

  void report_unknown() {
    for (const Entry& entry : value_.entries) {
      const std::string& key = entry.key.value;
      if (std::ranges::count(known_, key) != 0) continue;
      const auto other = std::ranges::find(elsewhere_, key, &std::pair<std::string_view, std::string_view>::first);
      if (other == elsewhere_.end()) {
        reader_.unknown(entry, place_, known_);
      } else {
        reader_.not_of_type(entry, place_, other->second);
      }
    }
  }

 private:
  const Entry* find(std::string_view key) const {
    auto entry =
        std::ranges::find(value_.entries, key, [](const Entry& one) -> std::string_view { return one.key.value; });
    return entry == value_.entries.end() ? nullptr : &*entry;
  }

  Reader& reader_;
  const Value& value_;
  const Place& place_;
  S& out_;
  std::vector<std::string_view> known_;
  std::vector<std::pair<std::string_view, std::string_view>> elsewhere_;  // keys that other types have, and those types
};

namespace detail {
// Finds the key that a plain value sets (`v.shorthand`).
struct ShorthandFinder {
  template <class S, class T>
  void field(std::string_view, T S::*, std::string_view, const Rules& = {}) {}
  template <class S, class E, class T>
  void variant(Located<E> S::*, E, T S::*, std::string_view) {}
  template <class S>
  void position(Position S::*) {}
  void shorthand(std::string_view name) { key = name; }

  std::string_view key;
};
}  // namespace detail

template <Declared S>
bool Reader::read_table(const Value& value, const Place& place, S& out) {
  if (value.broken) return false;
  Value stand_in;
  const Value* table = &value;
  if (value.kind != Value::Kind::table) {
    detail::ShorthandFinder finder;
    S::declare(finder);
    if (finder.key.empty() || value.kind == Value::Kind::list) {
      bool list_of_tables =
          value.kind == Value::Kind::list && !value.items.empty() && value.items[0].kind == Value::Kind::table;
      return wrong_kind(value, place.key, "a table", list_of_tables ? "write [" + place.key + "], once" : "");
    }
    stand_in.position = value.position;
    stand_in.entries.push_back({{std::string(finder.key), value.position}, value});
    table = &stand_in;
  }
  Table<S> visitor(*this, *table, place, out);
  scopes_.push_back({place.table, detail::keys_of<S>()});
  S::declare(visitor);
  visitor.report_unknown();
  scopes_.pop_back();
  return true;
}

}  // namespace sluice::app::config
