#include "api/resident/value.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <limits>

#include <fmt/format.h>

#include "api/column_value.h"
#include "base/ascii.h"
#include "base/hex.h"
#include "sql/column_kind.h"

namespace sluice::api::resident {
namespace {

using Spelling = ValueType::Spelling;

constexpr std::uint64_t sign_bit = std::uint64_t{1} << 63;

// Maps signed to unsigned integers and preserves their order.
constexpr std::uint64_t ordered(std::int64_t value) { return static_cast<std::uint64_t>(value) ^ sign_bit; }

// Removes exactly `count` digits from the front.
bool take_digits(std::string_view& text, std::size_t count, std::int64_t& value) {
  if (text.size() < count) return false;
  value = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (!is_digit(text[i])) return false;
    value = value * 10 + (text[i] - '0');
  }
  text.remove_prefix(count);
  return true;
}

bool take(std::string_view& text, char c) {
  if (text.empty() || text.front() != c) return false;
  text.remove_prefix(1);
  return true;
}

constexpr std::int64_t day_us = 86'400'000'000;

// Days of a date in the proleptic Gregorian calendar, counted from 2000-01-01. With this epoch PostgreSQL's
// microseconds fit into 64 bits.
std::int64_t days_of(std::int64_t year, std::int64_t month, std::int64_t day) {
  year -= month <= 2 ? 1 : 0;
  const std::int64_t era = (year >= 0 ? year : year - 399) / 400;
  const std::int64_t year_of_era = year - era * 400;
  const std::int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  const std::int64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
  return era * 146097 + day_of_era - 730425;
}

bool is_leap(std::int64_t year) { return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0); }

// `2026-11-22`; the year may have more digits.
bool take_date(std::string_view& text, bool bc, std::int64_t& days) {
  std::size_t width = 0;
  while (width < text.size() && is_digit(text[width])) ++width;
  std::int64_t year = 0;
  std::int64_t month = 0;
  std::int64_t day = 0;
  if (width < 4 || width > 7 || !take_digits(text, width, year) || !take(text, '-') || !take_digits(text, 2, month) ||
      !take(text, '-') || !take_digits(text, 2, day)) {
    return false;
  }
  if (bc && year == 0) return false;
  if (bc) year = 1 - year;
  static constexpr int lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  if (month < 1 || month > 12 || day < 1) return false;
  if (day > lengths[month - 1] + (month == 2 && is_leap(year) ? 1 : 0)) return false;
  days = days_of(year, month, day);
  return true;
}

// `12:34:56.789`; the seconds are optional.
bool take_time(std::string_view& text, std::int64_t& microseconds) {
  std::int64_t hours = 0;
  std::int64_t minutes = 0;
  std::int64_t seconds = 0;
  std::int64_t fraction = 0;
  if (!take_digits(text, 2, hours) || !take(text, ':') || !take_digits(text, 2, minutes)) return false;
  if (take(text, ':')) {
    if (!take_digits(text, 2, seconds)) return false;
    if (take(text, '.')) {
      std::int64_t unit = 100'000;
      std::size_t count = 0;
      for (; !text.empty() && is_digit(text.front()); text.remove_prefix(1), ++count, unit /= 10) {
        fraction += (text.front() - '0') * unit;
      }
      if (count == 0) return false;
    }
  }
  if (hours > 24 || minutes > 59 || seconds > 60) return false;
  microseconds = ((hours * 60 + minutes) * 60 + seconds) * 1'000'000 + fraction;
  return hours < 24 || microseconds == day_us;
}

// `Z`, `+01`, `+0130`, `+01:30`, and offsets with seconds, as in historical time zones.
bool take_zone(std::string_view& text, std::int64_t& microseconds) {
  microseconds = 0;
  if (take(text, 'Z') || take(text, 'z')) return true;
  if (text.empty() || (text.front() != '+' && text.front() != '-' && text.front() != ' ')) return false;
  const bool west = text.front() == '-';  // an unescaped plus arrives as a blank
  text.remove_prefix(1);
  std::int64_t parts[3] = {};
  for (std::size_t i = 0; i < 3; ++i) {
    if (i != 0 && !take(text, ':') && (text.empty() || !is_digit(text.front()))) break;
    if (!take_digits(text, 2, parts[i])) return false;
  }
  if (parts[0] > 18 || parts[1] > 59 || parts[2] > 59) return false;
  microseconds = ((parts[0] * 60 + parts[1]) * 60 + parts[2]) * 1'000'000;
  if (west) microseconds = -microseconds;
  return true;
}

bool make_infinite(std::string_view text, std::uint64_t& number) {
  if (text == "infinity") {
    number = std::numeric_limits<std::uint64_t>::max();
    return true;
  }
  number = 0;
  return text == "-infinity";
}

bool make_moment(Kind kind, std::string_view text, std::uint64_t& number) {
  if (make_infinite(text, number)) return true;
  bool bc = false;
  if (text.ends_with(" BC")) {
    bc = true;
    text.remove_suffix(3);
  }
  std::int64_t days = 0;
  if (!take_date(text, bc, days)) return false;
  if (kind == Kind::date) {
    number = ordered(days);
    return text.empty();
  }
  std::int64_t time = 0;
  std::int64_t zone = 0;
  if (!text.empty()) {
    if (!take(text, ' ') && !take(text, 'T') && !take(text, 't')) return false;
    if (!take_time(text, time)) return false;
    if (kind == Kind::timestamp_tz && !text.empty() && !take_zone(text, zone)) return false;
  }
  // A moment that exceeds 64 bits is beyond every timestamp of the databases.
  std::int64_t moment = 0;
  if (__builtin_mul_overflow(days, day_us, &moment) || __builtin_add_overflow(moment, time - zone, &moment))
    return false;
  number = ordered(moment);
  return text.empty();
}

// Accepts PostgreSQL's notations: optional braces, and a hyphen after any group of four digits.
bool append_canonical_uuid(std::string_view text, std::string& out) {
  if (text.starts_with('{')) {
    if (!text.ends_with('}')) return false;
    text = text.substr(1, text.size() - 2);
  }
  for (std::size_t digits = 0; digits < 32; ++digits) {
    if (digits == 8 || digits == 12 || digits == 16 || digits == 20) out.push_back('-');
    if (digits % 4 == 0 && digits != 0) (void)take(text, '-');
    if (text.empty() || hex_digit(text.front()) < 0) return false;
    out.push_back(static_cast<char>(text.front() | 0x20));  // digits already have this bit
    text.remove_prefix(1);
  }
  return text.empty();
}

// Appends a time in PostgreSQL's notation.
bool append_time(std::string_view text, std::string& out) {
  std::int64_t microseconds = 0;
  if (!take_time(text, microseconds) || !text.empty()) return false;
  const std::int64_t seconds = microseconds / 1'000'000;
  fmt::format_to(std::back_inserter(out), "{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
  if (const std::int64_t fraction = microseconds % 1'000'000; fraction != 0) {
    fmt::format_to(std::back_inserter(out), ".{:06}", fraction);
    while (out.back() == '0') out.pop_back();
  }
  return true;
}

// Appends an address in PostgreSQL's notation of macaddr and macaddr8.
bool append_mac(std::string_view text, std::size_t octets, std::string& out) {
  for (std::size_t octet = 0; octet < octets; ++octet) {
    if (octet != 0) {
      out.push_back(':');
      if (!text.empty() && std::string_view(":-.").contains(text.front())) text.remove_prefix(1);
    }
    for (int digit = 0; digit < 2; ++digit) {
      if (text.empty() || hex_digit(text.front()) < 0) return false;
      out.push_back(static_cast<char>(text.front() | 0x20));  // digits already have this bit
      text.remove_prefix(1);
    }
  }
  return text.empty();
}

constexpr std::uint32_t uuid_oid = 2950;
constexpr std::uint32_t uuids_oid = 2951;

// PostgreSQL types that sort like their texts: "char", name, text, macaddr, macaddr8, char(n), varchar, time, bit(n),
// bit varying, and literals of unknown type. Not included: interval, timetz, money, inet, enums, ranges.
bool orders_as_text(std::uint32_t oid) {
  static constexpr std::uint32_t oids[] = {0, 18, 19, 25, 705, 774, 829, 1042, 1043, 1083, 1560, 1562};
  return std::ranges::find(oids, oid) != std::end(oids);
}

// The first byte of `dynamic` keys: SQLite's order of storage classes.
constexpr char class_number = 1;
constexpr char class_text = 2;
constexpr char class_blob = 3;

// char(n) values are padded with blanks.
std::string_view without_padding(std::string_view text) { return text.substr(0, text.find_last_not_of(' ') + 1); }

}  // namespace

std::optional<ValueType> ValueType::of(const sql::Column& column) {
  if (!column.type) return std::nullopt;
  const auto scalar = [](const sql::Type& type, std::uint32_t id) -> std::optional<Kind> {
    switch (type.form) {
      case sql::Form::number:
        return id == 20 || id == 21 || id == 23 ? Kind::integer : Kind::number;
      case sql::Form::boolean:
        return Kind::boolean;
      case sql::Form::timestamp:
        return Kind::timestamp;
      case sql::Form::timestamp_tz:
        return Kind::timestamp_tz;
      case sql::Form::text:
        if (id == 26 || id == 5069) return Kind::integer;  // oid and xid8, which are texts in JSON
        if (id == uuid_oid) return Kind::uuid;
        return id == 1082 ? Kind::date : Kind::text;
      case sql::Form::dynamic:
        return Kind::dynamic;
      default:
        return std::nullopt;
    }
  };
  ValueType result;
  if (column.type->form == sql::Form::json) {
    result.shape = Shape::json;
    return result;
  }
  if (column.type->form == sql::Form::array) {
    if (!column.type->element || column.type->delimiter == ' ') return std::nullopt;
    // The element's exact type is unknown here, so whole numbers are treated as decimals: equal values have equal keys.
    // The texts of dates sort like the dates.
    const auto kind = scalar(*column.type->element, column.type_id == uuids_oid ? uuid_oid : 0);
    if (!kind) return std::nullopt;
    result.kind = *kind;
    result.shape = Shape::array;
    result.delimiter = column.type->delimiter;
    return result;
  }
  const auto kind = scalar(*column.type, column.type_id);
  if (!kind) return std::nullopt;
  result.kind = *kind;
  if (*kind == Kind::dynamic) {
    const sql::ColumnKind declared = sql::sqlite_column_kind(column.declared_type);
    if (declared == sql::ColumnKind::json) {
      result.kind = Kind::text;
      result.shape = Shape::json;
    } else if (sql::is_number_or_boolean(declared)) {
      result.spelling = declared == sql::ColumnKind::boolean ? Spelling::boolean : Spelling::numeric;
    } else if (declared == sql::ColumnKind::text) {
      result.kind = Kind::text;  // the column's affinity converts numbers to text
    }
  }
  if (column.type_id == 1042) result.spelling = Spelling::padded;
  if (column.type_id == 1083) result.spelling = Spelling::time;
  if (column.type_id == 829) result.spelling = Spelling::macaddr;
  if (column.type_id == 774) result.spelling = Spelling::macaddr8;
  result.ordered = *kind != Kind::text || orders_as_text(column.type_id);
  return result;
}

namespace {

std::string_view describe(Kind kind) {
  switch (kind) {
    case Kind::integer:
      return "an integer";
    case Kind::number:
      return "a number";
    case Kind::boolean:
      return "true or false";
    case Kind::date:
      return "a date (2026-11-22)";
    case Kind::timestamp:
      return "a timestamp (2026-11-22T18:30:00)";
    case Kind::timestamp_tz:
      return "a timestamp with its zone (2026-11-22T18:30:00Z)";
    case Kind::text:
      return "a text";
    case Kind::uuid:
      return "a UUID";
    case Kind::dynamic:
      return "a number or a text";
  }
  return {};
}

}  // namespace

std::string_view describe(const ValueType& type) {
  switch (type.spelling) {
    case Spelling::time:
      return "a time (12:30:00)";
    case Spelling::macaddr:
    case Spelling::macaddr8:
      return "a MAC address (08:00:2b:01:02:03)";
    case Spelling::numeric:
      return describe(Kind::number);
    case Spelling::boolean:
      return describe(Kind::boolean);
    case Spelling::plain:
    case Spelling::padded:
      break;
  }
  return describe(type.kind);
}

bool append_decimal_key(std::string_view text, std::string& out) {
  if (text == "NaN") {
    out.push_back('\x83');
    return true;
  }
  if (text == "Infinity") {
    out.push_back('\x82');
    return true;
  }
  if (text == "-Infinity") {
    out.push_back('\x7c');
    return true;
  }
  bool negative = false;
  if (take(text, '-')) {
    negative = true;
  } else {
    (void)take(text, '+');
  }
  // The digits without leading and trailing zeros. `point`: how many of all digits precede the point.
  const std::size_t e = text.find_first_of("eE");
  std::string_view mantissa = text.substr(0, e);
  std::int64_t exponent = 0;
  if (e != text.npos) {
    std::string_view written = text.substr(e + 1);
    if (take(written, '+') && written.starts_with('-')) return false;
    const auto [end, error] = std::from_chars(written.data(), written.data() + written.size(), exponent);
    if (error != std::errc{} || end != written.data() + written.size()) return false;
    if (exponent > 1'000'000 || exponent < -1'000'000) return false;
  }
  std::size_t point = mantissa.find('.');
  const std::string_view whole = mantissa.substr(0, point);
  const std::string_view part = point == mantissa.npos ? std::string_view{} : mantissa.substr(point + 1);
  if (whole.empty() && part.empty()) return false;
  if (!std::ranges::all_of(whole, is_digit) || !std::ranges::all_of(part, is_digit)) return false;
  const std::size_t digits = whole.size() + part.size();
  const auto digit = [&](std::size_t i) { return i < whole.size() ? whole[i] : part[i - whole.size()]; };
  std::size_t first = 0;
  while (first < digits && digit(first) == '0') ++first;
  std::size_t last = digits;
  while (last > first && digit(last - 1) == '0') --last;
  if (first == last) {
    out.push_back('\x80');
    return true;
  }
  const std::int64_t magnitude =
      static_cast<std::int64_t>(whole.size()) - static_cast<std::int64_t>(first) + exponent;  // 0.1 <= value/10^m < 1
  if (magnitude < -32'000 || magnitude > 32'000) {
    return false;
  }
  const std::size_t begin = out.size();
  out.push_back(static_cast<char>(0x81));
  const auto biased = static_cast<std::uint16_t>(magnitude + 0x8000);
  out.push_back(static_cast<char>(biased >> 8));
  out.push_back(static_cast<char>(biased & 0xff));
  // Two digits per byte, none of which is 0, so that a longer key is greater.
  for (std::size_t i = first; i < last; i += 2) {
    const int tens = digit(i) - '0';
    const int ones = i + 1 < last ? digit(i + 1) - '0' : 0;
    out.push_back(static_cast<char>(tens * 10 + ones + 1));
  }
  if (negative) {
    for (std::size_t i = begin; i < out.size(); ++i) out[i] = static_cast<char>(~out[i]);  // 0x81 becomes 0x7e
    out.push_back('\xff');
  }
  return true;
}

bool make_key(Kind kind, std::string_view text, std::string& scratch, Key& key) {
  switch (kind) {
    case Kind::integer: {
      std::int64_t value = 0;
      const char* const end = text.data() + text.size();
      const auto parsed = std::from_chars(text.data(), end, value);
      key.number = ordered(value);
      return parsed.ec == std::errc{} && parsed.ptr == end;
    }
    case Kind::boolean:
      key.number = text == "t" || text == "true" || text == "1" ? 1 : 0;
      return key.number == 1 || text == "f" || text == "false" || text == "0";
    case Kind::date:
    case Kind::timestamp:
    case Kind::timestamp_tz:
      return make_moment(kind, text, key.number);
    case Kind::number:
      scratch.clear();
      if (!append_decimal_key(text, scratch)) return false;
      key.bytes = scratch;
      return true;
    case Kind::text:
      key.bytes = text;
      return true;
    case Kind::uuid:
      scratch.clear();
      if (!append_canonical_uuid(text, scratch)) return false;
      key.bytes = scratch;
      return true;
    case Kind::dynamic:
      scratch.assign(1, class_number);
      if (!append_decimal_key(text, scratch)) {
        scratch.assign(1, class_text);
        scratch.append(text);
      }
      key.bytes = scratch;
      return true;
  }
  return false;
}

bool make_key(const ValueType& type, const sql::Field& field, std::string& scratch, Key& key) {
  std::string_view text = field.view();
  if (type.kind == Kind::dynamic) {
    const bool is_number = field.form == sql::Form::number || field.form == sql::Form::boolean;
    if (is_number) {
      if (field.form == sql::Form::boolean) text = text == "t" ? "1" : "0";
      scratch.assign(1, class_number);
      if (append_decimal_key(text, scratch)) {
        key.bytes = scratch;
        return true;
      }
    }
    scratch.assign(1, field.form == sql::Form::bytes ? class_blob : class_text);
    scratch.append(text);
    key.bytes = scratch;
    return true;
  }
  if (type.spelling == Spelling::padded) text = without_padding(text);
  return make_key(type.kind, text, scratch, key);
}

bool make_asked_key(const ValueType& type, std::string_view text, std::string& scratch, Key& key) {
  switch (type.spelling) {
    case Spelling::plain:
      break;
    case Spelling::padded:
      text = without_padding(text);
      break;
    case Spelling::boolean: {
      const auto asked = column_value(sql::ColumnKind::boolean, {.kind = Value::Kind::string, .text = text});
      if (!asked) return false;
      text = *asked->text == "true" || *asked->text == "1" ? "1" : "0";
      break;
    }
    case Spelling::numeric:
      if (!make_key(Kind::number, text, scratch, key)) return false;
      break;
    case Spelling::time:
    case Spelling::macaddr:
    case Spelling::macaddr8: {
      scratch.clear();
      const bool is_time = type.spelling == Spelling::time;
      if (!(is_time ? append_time(text, scratch)
                    : append_mac(text, type.spelling == Spelling::macaddr ? 6 : 8, scratch)))
        return false;
      key.bytes = scratch;
      return true;
    }
  }
  return make_key(type.kind, text, scratch, key);
}

bool make_asked_text_key(const ValueType& type, std::string_view text, std::string& scratch, Key& key) {
  if (type.kind != Kind::dynamic || type.spelling != Spelling::plain) return false;
  scratch.assign(1, class_text);
  scratch.append(text);
  key.bytes = scratch;
  return true;
}

bool make_asked_bytes_key(const ValueType& type, std::string_view text, std::string& scratch, Key& key) {
  if (type.kind != Kind::dynamic || type.spelling != Spelling::plain) return false;
  if (!text.starts_with("\\x") || text.size() % 2 != 0) return false;
  scratch.assign(1, class_blob);
  for (std::size_t i = 2; i < text.size(); i += 2) {
    const int high = hex_digit(text[i]);
    const int low = hex_digit(text[i + 1]);
    if (high < 0 || low < 0) return false;
    scratch.push_back(static_cast<char>(high << 4 | low));
  }
  key.bytes = scratch;
  return true;
}

}  // namespace sluice::api::resident
