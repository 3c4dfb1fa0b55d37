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

// A decimal number as 0.DIGITS times a power of ten, without zeros at either end: equal numbers give the same.
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

// Whether the double that is nearest to the number shows as the same number.
bool keeps_digits(std::string_view number, double nearest) {
  char shown[32];
  const auto end = std::to_chars(shown, shown + sizeof shown, nearest).ptr;
  return Digits(number) == Digits({shown, end});
}

// Nothing: the text is no number.
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
  // SQLite makes an integer of 2.0, and keeps 2.5 as it is.
  constexpr double beyond = 0x1p63;
  if (kind == ColumnKind::integer && (nearest != std::trunc(nearest) || nearest >= beyond || nearest < -beyond)) {
    return std::nullopt;
  }
  return as(ParameterType::real, text);
}

Converted refused(ColumnKind kind) {
  if (kind == ColumnKind::boolean) return std::unexpected("must be true or false");
  if (kind == ColumnKind::json) return std::unexpected("must be JSON");
  return std::unexpected(kind == ColumnKind::integer ? "must be an integer" : "must be a number");
}

bool is_infinity(std::string_view text) { return text == "Infinity" || text == "-Infinity"; }

// "true" or "false", or nothing: what answers write, and other programs in other cases.
std::string_view boolean(std::string_view text) {
  const auto is = [&](std::string_view word) {
    return std::ranges::equal(text, word, {}, [](char c) { return static_cast<char>(c | 0x20); });
  };
  if (is("t") || is("true")) return "true";
  return is("f") || is("false") ? "false" : std::string_view{};
}

// SQLite reads numbers between blanks too.
std::string_view without_blanks(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t\r\n\f\v");
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r\n\f\v") + 1 - begin);
}

Converted string(ColumnKind kind, std::string_view text) {
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
      // A number becomes one, below.
      if (!sql::sqlite::is_json(text)) return refused(kind);
      break;
    case ColumnKind::integer:
    case ColumnKind::value:
    case ColumnKind::other:
      break;
  }
  // SQLite would make a number of it by itself, with the digits that a REAL has.
  if (auto read = number(without_blanks(text), kind)) return *read;
  return sql::is_number_or_boolean(kind) ? refused(kind) : as(ParameterType::text, text);
}

}  // namespace

Converted column_value(ColumnKind kind, const Value& value) {
  if (sql::is_json(kind) && !value.json.empty()) return as(ParameterType::text, value.json);
  switch (value.kind) {
    case Value::Kind::string:
      return string(kind, value.text);
    case Value::Kind::number:
      if (kind == ColumnKind::text || kind <= ColumnKind::server_json) break;
      return number(value.text, kind).value_or(refused(kind));
    case Value::Kind::boolean:
      if (kind == ColumnKind::text || sql::is_json(kind)) break;
      if (sql::is_number_or_boolean(kind) && kind != ColumnKind::boolean) return refused(kind);
      return as(ParameterType::boolean, value.text);
    default:
      if (sql::is_number_or_boolean(kind)) return refused(kind);
      break;
  }
  return as(ParameterType::text, value.text);
}

}  // namespace sluice::api
