#include "sql/encode/text.h"

#include <array>
#include <cstdint>

#include "base/ascii.h"

namespace sluice::sql::encode {

namespace {

constexpr char hex_digits[] = "0123456789abcdef";

// The letter after the backslash; 'u' for the long form; 0 for a byte that needs no escape.
constexpr auto escapes = [] {
  std::array<char, 256> table{};
  for (std::size_t i = 0; i < 0x20; ++i) table[i] = 'u';
  table['\b'] = 'b';
  table['\f'] = 'f';
  table['\n'] = 'n';
  table['\r'] = 'r';
  table['\t'] = 't';
  table['"'] = '"';
  table['\\'] = '\\';
  return table;
}();

constexpr auto hex_pairs = [] {
  std::array<std::array<char, 2>, 256> table{};
  for (std::size_t i = 0; i < 256; ++i) table[i] = {hex_digits[i >> 4], hex_digits[i & 15]};
  return table;
}();

}  // namespace

char* json_escape_byte(char* out, unsigned char byte) {
  out[0] = '\\';
  out[1] = escapes[byte];
  if (escapes[byte] != 'u') return out + 2;
  std::memcpy(out + 2, "00", 2);
  std::memcpy(out + 4, hex_pairs[byte].data(), 2);
  return out + 6;
}

std::size_t json_escaped_size(const char* from, std::size_t size) {
  const auto extra = [](char byte) -> std::size_t {
    const char escape = escapes[static_cast<unsigned char>(byte)];
    return escape == 0 ? 0 : escape == 'u' ? 5 : 1;
  };
  std::size_t result = size;
  std::size_t at = 0;
  for (; size - at >= Chunk::size; at += Chunk::size) {
    for (unsigned mask = Chunk::load(from + at).json_specials(); mask != 0; mask &= mask - 1) {
      result += extra(from[at + static_cast<std::size_t>(std::countr_zero(mask))]);
    }
  }
  for (; at < size; ++at) result += extra(from[at]);
  return result;
}

std::size_t count_quotes(const char* from, std::size_t size) {
  std::size_t result = 0;
  std::size_t at = 0;
  for (; size - at >= Chunk::size; at += Chunk::size) {
    result += static_cast<std::size_t>(std::popcount(Chunk::load(from + at).quotes()));
  }
  for (; at < size; ++at) result += from[at] == '"' ? 1 : 0;
  return result;
}

char* json_escape_rest(char* out, const char* from, std::size_t size) {
  const char* const end = from + size;
  while (static_cast<std::size_t>(end - from) >= Chunk::size) {
    const Chunk chunk = Chunk::load(from);
    chunk.store(out);
    const unsigned mask = chunk.json_specials();
    if (mask == 0) {
      from += Chunk::size;
      out += Chunk::size;
      continue;
    }
    const int plain = std::countr_zero(mask);
    from += plain;
    out = json_escape_byte(out + plain, static_cast<unsigned char>(*from));
    ++from;
  }
  for (; from != end; ++from) {
    const auto byte = static_cast<unsigned char>(*from);
    if (escapes[byte] == 0) {
      *out++ = *from;
    } else {
      out = json_escape_byte(out, byte);
    }
  }
  return out;
}

char* csv_quote(char* out, const char* from, std::size_t size) {
  const char* const end = from + size;
  *out++ = '"';
  while (static_cast<std::size_t>(end - from) >= Chunk::size) {
    const Chunk chunk = Chunk::load(from);
    chunk.store(out);
    const unsigned mask = chunk.quotes();
    if (mask == 0) {
      from += Chunk::size;
      out += Chunk::size;
      continue;
    }
    const int copied = std::countr_zero(mask) + 1;
    from += copied;
    out += copied;
    *out++ = '"';
  }
  for (; from != end; ++from) {
    *out++ = *from;
    if (*from == '"') *out++ = '"';
  }
  *out++ = '"';
  return out;
}

char* hex(char* out, const char* from, std::size_t size) {
  for (const char* const end = from + size; from != end; ++from, out += 2) {
    std::memcpy(out, hex_pairs[static_cast<unsigned char>(*from)].data(), 2);
  }
  return out;
}

char* copy_on_one_line(char* out, const char* from, std::size_t size) {
  for (; size >= Chunk::size; size -= Chunk::size) {
    Chunk::load(from).without_line_ends().store(out);
    from += Chunk::size;
    out += Chunk::size;
  }
  for (; size != 0; --size, ++from) *out++ = *from == '\n' || *from == '\r' ? ' ' : *from;
  return out;
}

bool is_json_number(const char* from, std::size_t size) {
  const char* const end = from + size;
  const auto digits = [&] {
    const char* const start = from;
    while (from != end && is_digit(*from)) ++from;
    return from != start;
  };
  if (from != end && *from == '-') ++from;
  if (from != end && *from == '0') {
    ++from;
  } else if (!digits()) {
    return false;
  }
  if (from != end && *from == '.') {
    ++from;
    if (!digits()) return false;
  }
  if (from != end && (*from == 'e' || *from == 'E')) {
    ++from;
    if (from != end && (*from == '+' || *from == '-')) ++from;
    if (!digits()) return false;
  }
  return from == end;
}

char* json_timestamp(char* out, const char* from, std::size_t size, bool with_zone) {
  // infinity and -infinity need no change. Text that is not a timestamp is not converted, but may need escapes.
  constexpr std::size_t longest = 64;
  if (size > longest || size == 0 || !is_digit(*from)) return json_string(out, from, size);
  *out++ = '"';
  char* const start = out;
  out = json_escape(out, from, size);
  if (static_cast<std::size_t>(out - start) == size) {
    if (auto* space = static_cast<char*>(std::memchr(start, ' ', size)); space != nullptr) *space = 'T';
    if (with_zone) {
      const std::string_view text(start, size);
      const std::size_t tail = text.ends_with(" BC") ? 3 : 0;
      const std::size_t zone = size - tail - 3;
      // PostgreSQL omits the minutes of a zone with whole hours; ISO 8601 requires them.
      if (size > tail + 3 && (start[zone] == '+' || start[zone] == '-') && zone > 10) {
        std::memmove(out - tail + 3, out - tail, tail);
        std::memcpy(out - tail, ":00", 3);
        out += 3;
      }
    }
  }
  *out++ = '"';
  return out;
}

}  // namespace sluice::sql::encode
