#include "sql/sqlite/real.h"

#include <charconv>
#include <cmath>
#include <cstdint>

namespace sluice::sql::sqlite {
namespace {

// Below this limit a number has at most 15 digits with three decimal places. Different decimals of 15 digits are
// different doubles. So the decimal found here is the only one of its length, and to_chars would write it, too.
constexpr double limit = 1e12;

// Writes a number with at most three decimal places. Returns null for all other numbers, and for those that to_chars
// writes with an exponent.
char* write_short(char* out, double value) {
  const double size = std::fabs(value);
  if (!(size < limit)) return nullptr;
  auto digits = static_cast<std::uint64_t>(size * 1000 + 0.5);
  if (static_cast<double>(digits) / 1000 != size) return nullptr;
  unsigned places = 3;
  for (; places != 0 && digits % 10 == 0; --places) digits /= 10;
  // With an exponent, such a number may be shorter: 1e+05.
  if (places == 0 && digits != 0 && digits % 10'000 == 0) return nullptr;
  static constexpr std::uint64_t scales[] = {1, 10, 100, 1000};
  const std::uint64_t scale = scales[places];
  if (std::signbit(value)) *out++ = '-';
  out = std::to_chars(out, out + 20, digits / scale).ptr;
  *out++ = '.';
  std::uint64_t fraction = digits % scale;
  if (places == 0) {
    *out = '0';
    return out + 1;
  }
  for (unsigned i = places; i-- != 0; fraction /= 10) out[i] = static_cast<char>('0' + fraction % 10);
  return out + places;
}

}  // namespace

char* write_real(char* out, double value) {
  if (char* const end = write_short(out, value)) return end;
  char* end = std::to_chars(out, out + 32, value).ptr;
  for (const char* c = out; c != end; ++c) {
    if (*c == '.' || *c == 'e') return end;
  }
  *end++ = '.';
  *end++ = '0';
  return end;
}

}  // namespace sluice::sql::sqlite
