#include "api/resident/value_pack.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstring>

#include "base/ascii.h"
#include "base/assert.h"

namespace sluice::api::resident {
namespace {

constexpr std::size_t most_digits = 18;  // a number of this length always fits into 64 bits
constexpr std::int64_t second = 1'000'000;

std::size_t size_of(std::int64_t value) {
  std::size_t size = 1;
  while (size < 8 && (value < -(std::int64_t{1} << (size * 8 - 1)) || value >= std::int64_t{1} << (size * 8 - 1))) {
    ++size;
  }
  return size;
}

void append_integer(std::int64_t value, std::size_t size, std::string& out) {
  auto bits = static_cast<std::uint64_t>(value);
  for (std::size_t i = 0; i < size; ++i, bits >>= 8) out.push_back(static_cast<char>(bits));
}

std::int64_t read_integer(const char* from, std::size_t size) {
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < size; ++i) bits |= std::uint64_t{static_cast<unsigned char>(from[i])} << (i * 8);
  const unsigned unused = 64 - static_cast<unsigned>(size) * 8;
  return static_cast<std::int64_t>(bits << unused) >> unused;
}

// `count` digits; nullopt if there are other characters.
std::optional<unsigned> digits(std::string_view text, std::size_t at, std::size_t count) {
  unsigned value = 0;
  for (std::size_t i = at; i < at + count; ++i) {
    if (!is_digit(text[i])) return std::nullopt;
    value = value * 10 + static_cast<unsigned>(text[i] - '0');
  }
  return value;
}

char* write_digits(unsigned value, std::size_t count, char* out) {
  for (std::size_t i = count; i-- > 0; value /= 10) out[i] = static_cast<char>('0' + value % 10);
  return out + count;
}

// `2026-11-22`, as days since 1970.
std::optional<std::int64_t> parse_days(std::string_view text) {
  if (text.size() < 10 || text[4] != '-' || text[7] != '-') return std::nullopt;
  const auto year = digits(text, 0, 4);
  const auto month = digits(text, 5, 2);
  const auto day = digits(text, 8, 2);
  if (!year || !month || !day) return std::nullopt;
  const std::chrono::year_month_day date(std::chrono::year(static_cast<int>(*year)), std::chrono::month(*month),
                                         std::chrono::day(*day));
  if (!date.ok()) return std::nullopt;
  return std::chrono::sys_days(date).time_since_epoch().count();
}

char* write_days(std::int64_t days, char* out) {
  const std::chrono::year_month_day date{std::chrono::sys_days(std::chrono::days(days))};
  out = write_digits(static_cast<unsigned>(static_cast<int>(date.year())), 4, out);
  *out++ = '-';
  out = write_digits(static_cast<unsigned>(date.month()), 2, out);
  *out++ = '-';
  return write_digits(static_cast<unsigned>(date.day()), 2, out);
}

char* write_timestamp(std::int64_t time, char* out) {
  std::int64_t seconds = time / second;
  std::int64_t rest = time % second;
  if (rest < 0) {
    rest += second;
    --seconds;
  }
  std::int64_t days = seconds / 86400;
  std::int64_t clock = seconds % 86400;
  if (clock < 0) {
    clock += 86400;
    --days;
  }
  out = write_days(days, out);
  *out++ = ' ';
  out = write_digits(static_cast<unsigned>(clock / 3600), 2, out);
  *out++ = ':';
  out = write_digits(static_cast<unsigned>(clock / 60 % 60), 2, out);
  *out++ = ':';
  out = write_digits(static_cast<unsigned>(clock % 60), 2, out);
  if (rest == 0) return out;
  *out++ = '.';
  out = write_digits(static_cast<unsigned>(rest), 6, out);
  while (out[-1] == '0') --out;
  return out;
}

char* write_zone(int hours, char* out) {
  *out++ = hours < 0 ? '-' : '+';
  return write_digits(static_cast<unsigned>(hours < 0 ? -hours : hours), 2, out);
}

// `2026-11-22 18:30:00`, with up to six digits after a point, and with the hours of a zone. Unpacks the result and
// compares it with the text, to reject other notations.
bool append_timestamp(std::string_view text, std::string& out) {
  if (text.size() < 19 || text[10] != ' ' || text[13] != ':' || text[16] != ':') return false;
  const auto days = parse_days(text);
  const auto hour = digits(text, 11, 2);
  const auto minute = digits(text, 14, 2);
  const auto sec = digits(text, 17, 2);
  if (!days || !hour || !minute || !sec) return false;
  std::size_t at = 19;
  std::int64_t fraction = 0;
  if (at < text.size() && text[at] == '.') {
    std::int64_t unit = second / 10;
    for (++at; at < text.size() && is_digit(text[at]) && unit != 0; ++at, unit /= 10) {
      fraction += unit * (text[at] - '0');
    }
  }
  const std::int64_t time = (*days * 86400 + *hour * 3600 + *minute * 60 + *sec) * second + fraction;
  const bool has_zone = at != text.size();
  int zone = 0;
  if (has_zone) {
    if (text.size() - at != 3) return false;
    const auto hours = digits(text, at + 1, 2);
    if (!hours) return false;
    zone = text[at] == '-' ? -static_cast<int>(*hours) : static_cast<int>(*hours);
  }
  char written[most_unpacked];
  char* end = write_timestamp(time, written);
  if (has_zone) end = write_zone(zone, end);
  if (std::string_view(written, static_cast<std::size_t>(end - written)) != text) return false;
  if (fraction == 0) {
    out.push_back(static_cast<char>(has_zone ? pack::seconds_zone : pack::seconds));
    append_integer(time / second, 5, out);
  } else {
    out.push_back(static_cast<char>(has_zone ? pack::microseconds_zone : pack::microseconds));
    append_integer(time, 8, out);
  }
  if (has_zone) out.push_back(static_cast<char>(zone));
  return true;
}

constexpr std::size_t uuid_size = 36;

bool is_dash(std::size_t at) { return at == 8 || at == 13 || at == 18 || at == 23; }

bool pack_uuid(std::string_view text, std::string& out) {
  unsigned char bytes[16] = {};
  std::size_t nibble = 0;
  for (std::size_t i = 0; i < uuid_size; ++i) {
    const char c = text[i];
    if (is_dash(i)) {
      if (c != '-') return false;
      continue;
    }
    const bool is_letter = c >= 'a' && c <= 'f';
    if (!is_letter && !is_digit(c)) return false;
    const auto value = static_cast<unsigned>(is_letter ? c - 'a' + 10 : c - '0');
    bytes[nibble / 2] = static_cast<unsigned char>(bytes[nibble / 2] | (nibble % 2 == 0 ? value << 4 : value));
    ++nibble;
  }
  out.push_back(static_cast<char>(pack::uuid));
  out.append(reinterpret_cast<const char*>(bytes), sizeof bytes);
  return true;
}

char* write_uuid(const char* from, char* out) {
  constexpr char hex[] = "0123456789abcdef";
  for (std::size_t i = 0, byte = 0; i < uuid_size;) {
    if (is_dash(i)) {
      out[i++] = '-';
      continue;
    }
    const auto value = static_cast<unsigned char>(from[byte++]);
    out[i++] = hex[value >> 4];
    out[i++] = hex[value & 15];
  }
  return out + uuid_size;
}

char* write_decimal(std::int64_t value, std::size_t scale, char* out) {
  if (value < 0) *out++ = '-';
  char text[20];
  const auto [end, error] = std::to_chars(text, text + sizeof text, value < 0 ? -value : value);
  const auto count = static_cast<std::size_t>(end - text);
  if (count > scale) {
    std::memcpy(out, text, count - scale);
    out += count - scale;
  } else {
    *out++ = '0';
  }
  *out++ = '.';
  for (std::size_t zeros = count; zeros < scale; ++zeros) *out++ = '0';
  const std::size_t behind = std::min(count, scale);
  std::memcpy(out, text + count - behind, behind);
  return out + behind;
}

}  // namespace

bool append_packed_number(std::string_view text, std::string& out) {
  const bool negative = text.starts_with('-');
  const std::string_view plain = text.substr(negative ? 1 : 0);
  if (plain.empty() || !is_digit(plain.front()) || plain.size() > most_digits + 1) return false;
  if (plain.front() == '0' && plain.size() > 1 && plain[1] != '.') return false;
  std::int64_t value = 0;
  std::size_t count = 0;
  std::optional<std::size_t> point;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    if (plain[i] == '.' && !point) {
      point = i;
    } else if (!is_digit(plain[i]) || ++count > most_digits) {
      return false;
    } else {
      value = value * 10 + (plain[i] - '0');
    }
  }
  if (negative && value == 0) return false;
  if (negative) value = -value;
  if (!point) {
    if (value >= 0 && value < pack::word - pack::small) {
      out.push_back(static_cast<char>(pack::small + value));
      return true;
    }
    const std::size_t size = size_of(value);
    out.push_back(static_cast<char>(pack::integer + size));
    append_integer(value, size, out);
    return true;
  }
  const std::size_t scale = plain.size() - *point - 1;
  if (scale == 0) return false;
  const std::size_t size = size_of(value);
  out.push_back(static_cast<char>(pack::decimal + size));
  out.push_back(static_cast<char>(scale));
  append_integer(value, size, out);
  return true;
}

bool append_packed_time_or_uuid(std::string_view text, std::string& out) {
  if (text.size() == 10) {
    const auto days = parse_days(text);
    if (!days) return false;
    out.push_back(static_cast<char>(pack::date));
    append_integer(*days, 3, out);
    return true;
  }
  if (text.size() == uuid_size) return pack_uuid(text, out);
  return text.size() < uuid_size && append_timestamp(text, out);
}

char* unpack_value(unsigned char head, const char* from, char* out) {
  switch (head) {
    case pack::uuid:
      return write_uuid(from, out);
    case pack::date:
      return write_days(read_integer(from, 3), out);
    case pack::seconds:
      return write_timestamp(read_integer(from, 5) * second, out);
    case pack::microseconds:
      return write_timestamp(read_integer(from, 8), out);
    case pack::seconds_zone:
      return write_zone(static_cast<signed char>(from[5]), write_timestamp(read_integer(from, 5) * second, out));
    case pack::microseconds_zone:
      return write_zone(static_cast<signed char>(from[8]), write_timestamp(read_integer(from, 8), out));
    default:
      break;
  }
  SLUICE_ASSERT(is_packed_number(head));
  if (head >= pack::small) return std::to_chars(out, out + most_unpacked, head - pack::small).ptr;
  if (head < pack::decimal)
    return std::to_chars(out, out + most_unpacked, read_integer(from, head - pack::integer)).ptr;
  return write_decimal(read_integer(from + 1, head - pack::decimal), static_cast<unsigned char>(*from), out);
}

}  // namespace sluice::api::resident
