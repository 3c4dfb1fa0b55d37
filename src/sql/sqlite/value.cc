#include "sql/sqlite/value.h"

#include <charconv>
#include <cmath>
#include <cstring>
#include <optional>
#include <string>

#include <sqlite3.h>

#include "base/utf8.h"
#include "sql/parameters.h"
#include "sql/sqlite/json_text.h"
#include "sql/sqlite/real.h"

namespace sluice::sql::sqlite {
namespace {

// Returns the length of the well-formed character at `at`. Returns 0 if it is malformed; then `broken` is the number of
// bytes that one U+FFFD replaces (the maximal subpart, as Unicode recommends).
std::size_t character_at(std::string_view text, std::size_t at, std::size_t& broken) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(at);
  broken = 1;
  if (first < 0x80) return 1;
  if (first < 0xC2 || first > 0xF4) return 0;
  const std::size_t length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  unsigned low = 0x80;
  unsigned high = 0xBF;
  if (first == 0xE0) low = 0xA0;
  if (first == 0xED) high = 0x9F;
  if (first == 0xF0) low = 0x90;
  if (first == 0xF4) high = 0x8F;
  for (std::size_t i = 1; i < length; ++i) {
    if (at + i >= text.size() || byte(at + i) < low || byte(at + i) > high) return 0;
    ++broken;
    low = 0x80;
    high = 0xBF;
  }
  return length;
}

void append_repaired(RowBlock& block, std::string_view text) {
  // Each broken byte becomes at most three bytes.
  char* const begin = block.reserve(text.size() * 3);
  char* out = begin;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t broken = 0;
    const std::size_t length = character_at(text, at, broken);
    if (length == 0) {
      std::memcpy(out, "\xEF\xBF\xBD", 3);
      out += 3;
      at += broken;
    } else {
      std::memcpy(out, text.data() + at, length);
      out += length;
      at += length;
    }
  }
  block.add_written(static_cast<std::size_t>(out - begin), Form::text);
}

void append_text(RowBlock& block, std::string_view text, ColumnKind kind) {
  if (text.empty()) return block.add_static("", 0, Form::text);
  if (!is_utf8(text)) [[unlikely]]
    return append_repaired(block, text);
  const bool json = kind == ColumnKind::json && is_json(text);
  block.add_copy(text.data(), text.size(), json ? Form::json : Form::text);
}

void append_real(RowBlock& block, double value) {
  if (std::isinf(value)) [[unlikely]] {
    return value > 0 ? block.add_static("Infinity", 8, Form::number) : block.add_static("-Infinity", 9, Form::number);
  }
  char* const begin = block.reserve(40);
  block.add_written(static_cast<std::size_t>(write_real(begin, value) - begin), Form::number);
}

// Inlined, because most values of typical exports are integers.
[[gnu::always_inline]] inline void append_integer(RowBlock& block, std::int64_t value, ColumnKind kind) {
  if (kind == ColumnKind::boolean && (value == 0 || value == 1)) {
    return block.add_static(value == 1 ? "t" : "f", 1, Form::boolean);
  }
  if (kind == ColumnKind::real) [[unlikely]]
    return append_real(block, static_cast<double>(value));
  char* const begin = block.reserve(20);
  const auto written = std::to_chars(begin, begin + 20, value);
  block.add_written(static_cast<std::size_t>(written.ptr - begin), Form::number);
}

// A column of NUMERIC or INTEGER affinity stores a whole number as an integer, and SELECT returns it as one. INSERT's
// RETURNING may return it as a REAL.
void append_float(RowBlock& block, double value, ColumnKind kind) {
  const bool stores_reals = kind == ColumnKind::real || kind == ColumnKind::any || kind == ColumnKind::bytes;
  constexpr double limit = 0x1p63;
  if (!stores_reals && value > -limit && value < limit && value == std::trunc(value)) {
    return append_integer(block, static_cast<std::int64_t>(value), kind);
  }
  append_real(block, value);
}

std::unexpected<Error> bad_argument(std::span<const Parameter> parameters, std::size_t index, std::string_view why) {
  Error error{Failure::bad_argument, {}, {}};
  error.message = index < parameters.size() ? ":" + parameters[index].name : "argument " + std::to_string(index + 1);
  error.message += ' ';
  error.message += why;
  error.rule = std::make_shared<const BrokenRule>(
      BrokenRule{.constraint = {}, .table = {}, .columns = {}, .parameter = static_cast<std::uint32_t>(index) + 1});
  return std::unexpected(std::move(error));
}

template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<bool> parse_boolean(std::string_view text) {
  if (text == "true" || text == "t" || text == "1") return true;
  if (text == "false" || text == "f" || text == "0") return false;
  return std::nullopt;
}

// Decodes hexadecimal digits.
std::string bytes_of(std::string_view digits) {
  std::string bytes(digits.size() / 2, '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::uint8_t byte = 0;
    std::from_chars(digits.data() + 2 * i, digits.data() + 2 * i + 2, byte, 16);
    bytes[i] = static_cast<char>(byte);
  }
  return bytes;
}

}  // namespace

void append_row(RowBlock& block, sqlite3_stmt* statement, std::span<const ColumnKind> columns) {
  for (int i = 0; i < static_cast<int>(columns.size()); ++i) {
    // The value is unprotected, but no other thread uses this connection. One call replaces three look-ups by
    // column_type, column_text and column_bytes.
    sqlite3_value* const value = sqlite3_column_value(statement, i);
    switch (sqlite3_value_type(value)) {
      case SQLITE_INTEGER:
        append_integer(block, sqlite3_value_int64(value), columns[i]);
        break;
      case SQLITE_FLOAT:
        append_float(block, sqlite3_value_double(value), columns[i]);
        break;
      case SQLITE_TEXT: {
        // Get the text first: its size is known only after a possible conversion to UTF-8.
        const auto* text = reinterpret_cast<const char*>(sqlite3_value_text(value));
        const auto size = static_cast<std::size_t>(sqlite3_value_bytes(value));
        append_text(block, text == nullptr ? std::string_view() : std::string_view(text, size), columns[i]);
        break;
      }
      case SQLITE_BLOB: {
        const auto* data = static_cast<const char*>(sqlite3_value_blob(value));
        const auto size = static_cast<std::size_t>(sqlite3_value_bytes(value));
        if (size == 0 || data == nullptr) {
          block.add_static("", 0, Form::bytes);
        } else {
          block.add_copy(data, size, Form::bytes);
        }
        break;
      }
      default:
        block.add_null();
        break;
    }
  }
  block.end_row();
}

OwnedArguments::OwnedArguments(std::span<const Argument> arguments) : list(arguments.begin(), arguments.end()) {
  std::size_t size = 0;
  for (const Argument& argument : list) size += argument.text ? argument.text->size() : 0;
  bytes_ = std::make_unique_for_overwrite<char[]>(size);
  char* at = bytes_.get();
  for (Argument& argument : list) {
    if (!argument.text) continue;
    const std::size_t length = argument.text->size();
    if (length != 0) std::memcpy(at, argument.text->data(), length);
    argument.text = std::string_view(at, length);
    at += length;
  }
}

Result<void> bind(sqlite3_stmt* statement, std::span<const Argument> arguments, std::span<const Parameter> parameters) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const int index = static_cast<int>(i) + 1;
    const Argument& argument = arguments[i];
    int code = SQLITE_OK;
    if (!argument.text) {
      code = sqlite3_bind_null(statement, index);
    } else {
      const std::string_view text = *argument.text;
      switch (argument.type) {
        case ParameterType::integer: {
          const auto number = parse_number<std::int64_t>(text);
          if (!number) return bad_argument(parameters, i, "is not an integer of 64 bits");
          code = sqlite3_bind_int64(statement, index, *number);
          break;
        }
        case ParameterType::real: {
          const auto number = parse_number<double>(text);
          const bool finite = number && std::isfinite(*number);
          if (!finite && text != "Infinity" && text != "-Infinity")
            return bad_argument(parameters, i, "is not a finite number");
          code = sqlite3_bind_double(statement, index, *number);
          break;
        }
        case ParameterType::boolean: {
          const auto value = parse_boolean(text);
          if (!value) return bad_argument(parameters, i, "is neither true nor false");
          code = sqlite3_bind_int(statement, index, *value ? 1 : 0);
          break;
        }
        case ParameterType::bytes: {
          if (!fits(ParameterType::bytes, text))
            return bad_argument(parameters, i, "is not \\x and hexadecimal digits");
          const std::string bytes = bytes_of(text.substr(2));
          code = sqlite3_bind_blob64(statement, index, bytes.data(), bytes.size(), SQLITE_TRANSIENT);
          break;
        }
        default:  // text, and lists as JSON
          if (!is_utf8(text)) return bad_argument(parameters, i, "is not valid UTF-8");
          // An empty text may have a null pointer, which would bind NULL.
          code = sqlite3_bind_text64(statement, index, text.empty() ? "" : text.data(), text.size(), SQLITE_STATIC,
                                     SQLITE_UTF8);
          break;
      }
    }
    if (code == SQLITE_TOOBIG) return bad_argument(parameters, i, "is too large");
    if (code != SQLITE_OK) return bad_argument(parameters, i, sqlite3_errstr(code));
  }
  return {};
}

}  // namespace sluice::sql::sqlite
