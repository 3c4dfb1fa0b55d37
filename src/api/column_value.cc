#include "api/column_value.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <system_error>

#include "base/ascii.h"
#include "sql/parameters.h"
#include "sql/sqlite/json_text.h"

namespace sluice::api {
namespace {

using sql::ColumnKind;
using sql::ParameterType;
using Converted = std::expected<sql::Argument, std::string_view>;

sql::Argument as(ParameterType type, std::string_view text) { return {.text = text, .type = type}; }

// A decimal number as 0.DIGITS times a power of ten, without zeros at either end. Equal numbers have the same digits.
struct Digits {
  explicit Digits(std::string_view number) {
    const auto mark = std::min(number.find_first_of("eE"), number.size());
    if (mark != number.size()) {
      const std::size_t begin = mark + (number.substr(mark + 1).starts_with('+') ? 2 : 1);
      std::from_chars(number.data() + begin, number.data() + number.size(), power);
    }
    const std::string_view mantissa = number.substr(0, mark).substr(number.starts_with('-') ? 1 : 0);
    for (const char c : mantissa) {
      if (is_digit(c)) text += c;
    }
    power += static_cast<int>(std::ranges::find(mantissa, '.') - mantissa.begin());
    const std::size_t zeros = std::min(text.find_first_not_of('0'), text.size());
    text.erase(0, zeros);
    power -= static_cast<int>(zeros);
    while (text.ends_with('0')) text.pop_back();
    if (text.empty()) power = 0;
  }
  bool operator==(const Digits&) const = default;

  std::string text;
  int power = 0;
};

// Whether the nearest double is written as the same number.
bool keeps_digits(std::string_view number, double nearest) {
  char shown[32];
  const auto end = std::to_chars(shown, shown + sizeof shown, nearest).ptr;
  return Digits(number) == Digits({shown, end});
}

// Returns nullopt if the text is not a number.
std::optional<Converted> number(std::string_view text, ColumnKind kind) {
  if (text.starts_with('+')) text.remove_prefix(1);
  const std::string_view digits = text.substr(text.starts_with('-') ? 1 : 0);
  const bool begins =
      !digits.empty() && (is_digit(digits[0]) || (digits.size() > 1 && digits[0] == '.' && is_digit(digits[1])));
  if (!begins) return std::nullopt;
  if (kind == ColumnKind::boolean && text != "0" && text != "1") return std::nullopt;
  if (sql::fits(ParameterType::integer, text)) return as(ParameterType::integer, text);
  double nearest = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), nearest);
  if (end != text.data() + text.size()) return std::nullopt;
  if (error != std::errc{}) return std::unexpected("must be a number that fits into 64 bits");
  if (kind != ColumnKind::real && (text.find_first_of(".eE") == text.npos || !keeps_digits(text, nearest))) {
    return std::unexpected("must be a number of no more digits than 64 bits hold");
  }
  // SQLite converts 2.0 to an integer, and keeps 2.5.
  constexpr double beyond = 0x1p63;
  if (kind == ColumnKind::integer && (nearest != std::trunc(nearest) || nearest >= beyond || nearest < -beyond)) {
    return std::nullopt;
  }
  return as(ParameterType::real, text);
}

// Whether answers still show the same text after a NUMERIC column has converted it to this number.
bool keeps_spelling(std::string_view text, const sql::Argument& number) {
  char digits[40];
  const char* const begin = number.text->data();
  const char* const end = begin + number.text->size();
  if (number.type == ParameterType::integer) {
    std::int64_t integer = 0;
    std::from_chars(begin, end, integer);
    return std::string_view(digits, std::to_chars(digits, digits + sizeof digits, integer).ptr) == text;
  }
  double real = 0;
  std::from_chars(begin, end, real);
  constexpr double beyond = 0x1p63;
  if (real == std::trunc(real) && real < beyond && real >= -beyond) return false;  // SQLite converts it to an integer
  std::string shown(digits, std::to_chars(digits, digits + sizeof digits, real).ptr);
  if (shown.find_first_of(".e") == shown.npos) shown += ".0";
  return shown == text;
}

// For a text that is not a value of the column's type.
Converted no_value(ColumnKind kind, std::string_view text, ColumnUse use) {
  if (use.allows_texts) return as(ParameterType::text, text);
  if (kind == ColumnKind::boolean) return std::unexpected("must be true or false");
  if (kind == ColumnKind::json) return std::unexpected("must be JSON");
  return std::unexpected(kind == ColumnKind::integer ? "must be an integer" : "must be a number");
}

bool is_infinity(std::string_view text) { return text == "Infinity" || text == "-Infinity"; }

// Returns "true" or "false", or an empty string. Ignores case.
std::string_view boolean(std::string_view text) {
  const auto is = [&](std::string_view word) {
    return std::ranges::equal(text, word, {}, [](char c) { return static_cast<char>(c | 0x20); });
  };
  if (is("t") || is("true")) return "true";
  return is("f") || is("false") ? "false" : std::string_view{};
}

// SQLite also accepts numbers between blanks.
std::string_view without_blanks(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t\r\n\f\v");
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r\n\f\v") + 1 - begin);
}

Converted string(ColumnKind kind, std::string_view text, ColumnUse use) {
  switch (kind) {
    case ColumnKind::by_server:
    case ColumnKind::server_value:
    case ColumnKind::server_json:
    case ColumnKind::any:
    case ColumnKind::text:
      return as(ParameterType::text, text);
    case ColumnKind::bytes:
      return as(sql::fits(ParameterType::bytes, text) ? ParameterType::bytes : ParameterType::text, text);
    case ColumnKind::boolean:
      if (const std::string_view word = boolean(text); !word.empty()) return as(ParameterType::boolean, word);
      break;
    case ColumnKind::real:
    case ColumnKind::numeric:
      if (is_infinity(text)) return as(ParameterType::real, text);
      break;
    case ColumnKind::json:
      // Numbers are handled below.
      if (!sql::sqlite::is_json(text)) return no_value(kind, text, use);
      break;
    case ColumnKind::integer:
    case ColumnKind::value:
    case ColumnKind::other:
      break;
  }
  // SQLite would convert it to a number with only the digits of a REAL.
  if (auto read = number(without_blanks(text), kind)) {
    const bool is_text = kind == ColumnKind::value || kind == ColumnKind::other;
    if (is_text && use.is_stored && *read && !keeps_spelling(text, **read)) {
      return std::unexpected("must not read like a number that the column stores in another spelling");
    }
    return *read;
  }
  return sql::is_number_or_boolean(kind) ? no_value(kind, text, use) : as(ParameterType::text, text);
}

}  // namespace

Converted column_value(ColumnKind kind, const Value& value, ColumnUse use) {
  if (sql::is_json(kind) && !value.json.empty()) return as(ParameterType::text, value.json);
  switch (value.kind) {
    case Value::Kind::string:
      return string(kind, value.text, use);
    case Value::Kind::number:
      if (kind == ColumnKind::text || kind <= ColumnKind::server_json) break;
      return number(value.text, kind).value_or(no_value(kind, value.text, use));
    case Value::Kind::boolean:
      if (kind == ColumnKind::text || sql::is_json(kind)) break;
      if (sql::is_number_or_boolean(kind) && kind != ColumnKind::boolean) return no_value(kind, value.text, use);
      return as(ParameterType::boolean, value.text);
    default:
      if (sql::is_number_or_boolean(kind)) return no_value(kind, value.text, use);
      break;
  }
  return as(ParameterType::text, value.text);
}

}  // namespace sluice::api
