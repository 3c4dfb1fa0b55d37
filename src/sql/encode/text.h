#pragma once

#include <bit>
#include <cstddef>
#include <string_view>

#include "sql/encode/scan.h"

// Writes single values into memory that has room for them. Each function's comment says how much room it needs for
// `size` bytes of input; it may write `slack` bytes more. All functions return the end of what they wrote.
namespace sluice::sql::encode {

// Up to this size, callers reserve room for the worst case; longer values are measured first.
inline constexpr std::size_t short_size = 1024;

// The length of the longest escape: \u001f.
inline constexpr std::size_t json_growth = 6;

// The escape of one byte that Chunk::json_specials() found; room: 6.
[[nodiscard]] char* json_escape_byte(char* out, unsigned char byte);
// The exact output size of json_escape().
[[nodiscard]] std::size_t json_escaped_size(const char* from, std::size_t size);
[[nodiscard]] std::size_t count_quotes(const char* from, std::size_t size);
// Room: as measured by json_escaped_size().
[[nodiscard]] char* json_escape_rest(char* out, const char* from, std::size_t size);
[[nodiscard]] char* csv_quote(char* out, const char* from, std::size_t size);
// Room: 2 * size.
[[nodiscard]] char* hex(char* out, const char* from, std::size_t size);
// Room: size. CR and LF become spaces: in the text of a JSON value they are white space between tokens.
[[nodiscard]] char* copy_on_one_line(char* out, const char* from, std::size_t size);
// Whether the text is a number by RFC 8259. PostgreSQL's to_json leaves exactly these unquoted.
[[nodiscard]] bool is_json_number(const char* from, std::size_t size);
// Converts a timestamp from PostgreSQL's ISO style to quoted ISO 8601. Room: that of json_string() + 3.
[[nodiscard]] char* json_timestamp(char* out, const char* from, std::size_t size, bool with_zone);

// Escapes like PostgreSQL's escape_json, without quotes. Room: json_escaped_size(), at most json_growth * size.
[[nodiscard]] inline char* json_escape(char* out, const char* from, std::size_t size) {
  while (size >= Chunk::size) {
    const Chunk chunk = Chunk::load(from);
    chunk.store(out);
    if (chunk.json_specials() != 0) [[unlikely]]
      return json_escape_rest(out, from, size);
    from += Chunk::size;
    out += Chunk::size;
    size -= Chunk::size;
  }
  const Short tail = Short::load(from, size);
  if (tail.chunk().json_specials() != 0) [[unlikely]]
    return json_escape_rest(out, from, size);
  return tail.store(out);
}

// Room: that of json_escape() + 2.
[[nodiscard]] inline char* json_string(char* out, const char* from, std::size_t size) {
  *out++ = '"';
  out = json_escape(out, from, size);
  *out++ = '"';
  return out;
}

// Writes a number unchanged and anything else (NaN, Infinity) as a string. Room: as json_string().
[[nodiscard]] inline char* json_number(char* out, const char* from, std::size_t size) {
  if (size - 1 < Chunk::size - 1) [[likely]] {
    const Short number = Short::load(from, size);
    if (number.chunk().all_digits() && (*from != '0' || size == 1)) [[likely]]
      return number.store(out);
  }
  if (!is_json_number(from, size)) [[unlikely]]
    return json_string(out, from, size);
  return copy(out, from, size);
}

// Room: 5.
[[nodiscard]] inline char* json_boolean(char* out, const char* from, std::size_t size) {
  const bool value = size != 0 && *from == 't';
  std::memcpy(out, value ? "true" : "fals", 4);
  out[4] = 'e';
  return out + (value ? 4 : 5);
}

// Room: 5 + 2 * size.
[[nodiscard]] inline char* json_bytes(char* out, const char* from, std::size_t size) {
  std::memcpy(out, "\"\\\\x", 4);
  out = hex(out + 4, from, size);
  *out++ = '"';
  return out;
}

// Room: 2 + 2 * size.
[[nodiscard]] inline char* csv_bytes(char* out, const char* from, std::size_t size) {
  std::memcpy(out, "\\x", 2);
  return hex(out + 2, from, size);
}

// Writes a value as COPY does. It is quoted if it is empty (an empty value without quotes is NULL); if it contains a
// delimiter, a quote or a line end; or if it is the only value of its line and would look like the end of the data.
// Room: size + quotes + 2.
[[nodiscard]] inline char* csv_value(char* out, const char* from, std::size_t size, bool single) {
  const char* const whole = from;
  const std::size_t whole_size = size;
  char* const start = out;
  if (size == 0 || (single && std::string_view(from, size) == "\\.")) [[unlikely]]
    return csv_quote(out, from, size);
  while (size >= Chunk::size) {
    const Chunk chunk = Chunk::load(from);
    chunk.store(out);
    if (chunk.csv_specials() != 0) [[unlikely]]
      return csv_quote(start, whole, whole_size);
    from += Chunk::size;
    out += Chunk::size;
    size -= Chunk::size;
  }
  const Short tail = Short::load(from, size);
  if (tail.chunk().csv_specials() != 0) [[unlikely]]
    return csv_quote(start, whole, whole_size);
  return tail.store(out);
}

}  // namespace sluice::sql::encode
