#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "base/ascii.h"
#include "http/fields.h"

// Byte classes of RFC 9110 and 9112, and the search for the first byte that ends a token. The search never reads
// outside [base, end): for the last, short piece it loads a vector that ends at `end` and overlaps bytes already
// searched.
namespace sluice::http::h1 {

inline bool is_ows(char c) { return c == ' ' || c == '\t'; }

// Calls `each` with every trimmed element of a comma-separated list, including empty ones.
template <class Each>
void for_each_element(std::string_view list, Each each) {
  for (;;) {
    const std::size_t comma = std::min(list.find(','), list.size());
    std::string_view element = list.substr(0, comma);
    while (!element.empty() && is_ows(element.front())) element.remove_prefix(1);
    while (!element.empty() && is_ows(element.back())) element.remove_suffix(1);
    each(element);
    if (comma == list.size()) return;
    list.remove_prefix(comma + 1);
  }
}

// Bytes that a field value cannot contain: control characters except HTAB. CR is one of them, so the search also finds
// the end of the value.
struct EndsValue {
  static constexpr std::size_t lookback = 0;
  static bool test(const char* at) {
    const auto c = static_cast<unsigned char>(*at);
    return (c < 0x20 && c != '\t') || c == 0x7F;
  }
#if defined(__SSE2__)
  static unsigned mask(const char* at) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
    const __m128i control = _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(0x1F)), bytes);
    const __m128i tab = _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\t'));
    const __m128i del = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(0x7F));
    return static_cast<unsigned>(_mm_movemask_epi8(_mm_or_si128(_mm_andnot_si128(tab, control), del)));
  }
#endif
};

// Bytes that are not visible ASCII, '#' (a target has no fragment), and '?'.
struct EndsTarget {
  static constexpr std::size_t lookback = 0;
  static bool test(const char* at) {
    const auto c = static_cast<unsigned char>(*at);
    return c < 0x21 || c > 0x7E || c == '#' || c == '?';
  }
#if defined(__SSE2__)
  static __m128i classify(__m128i bytes) {
    const __m128i outside =
        _mm_or_si128(_mm_cmplt_epi8(bytes, _mm_set1_epi8(0x21)),  // signed comparison: includes bytes above 0x7F
                     _mm_cmpeq_epi8(bytes, _mm_set1_epi8(0x7F)));
    const __m128i marks =
        _mm_or_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('#')), _mm_cmpeq_epi8(bytes, _mm_set1_epi8('?')));
    return _mm_or_si128(outside, marks);
  }
  static unsigned mask(const char* at) {
    return static_cast<unsigned>(_mm_movemask_epi8(classify(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)))));
  }
#endif
};

// Visible characters that are invalid in a URI (RFC 3986, 2) and that browsers never send in a path: the backslash
// (many servers treat it as a slash), quotes and angle brackets. Other characters that are invalid in a URI ('|', '^',
// braces ...) are accepted as data.
inline bool is_refused_in_path(char c) { return c == '\\' || c == '"' || c == '<' || c == '>'; }

// The bytes of EndsTarget; the bytes of is_refused_in_path(); and the bytes that make a path differ from its decoded
// form: '%', and the second byte of "//" and "/.".
struct EndsPlainPath {
  static constexpr std::size_t lookback = 1;
  static bool test(const char* at) {
    return EndsTarget::test(at) || *at == '%' || is_refused_in_path(*at) ||
           (at[-1] == '/' && (*at == '/' || *at == '.'));
  }
#if defined(__SSE2__)
  static unsigned mask(const char* at) {
    const __m128i before = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at - 1));
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
    const __m128i slash = _mm_set1_epi8('/');
    const __m128i segment = _mm_or_si128(_mm_cmpeq_epi8(bytes, slash), _mm_cmpeq_epi8(bytes, _mm_set1_epi8('.')));
    const __m128i odd =
        _mm_or_si128(_mm_and_si128(_mm_cmpeq_epi8(before, slash), segment), _mm_cmpeq_epi8(bytes, _mm_set1_epi8('%')));
    const __m128i brackets = _mm_cmpeq_epi8(_mm_or_si128(bytes, _mm_set1_epi8('<' ^ '>')),
                                            _mm_set1_epi8('<' | '>'));  // matches only these two bytes
    const __m128i others =
        _mm_or_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\')), _mm_cmpeq_epi8(bytes, _mm_set1_epi8('"')));
    const __m128i ends = _mm_or_si128(_mm_or_si128(EndsTarget::classify(bytes), odd), _mm_or_si128(brackets, others));
    return static_cast<unsigned>(_mm_movemask_epi8(ends));
  }
#endif
};

// Nearly every field name and host consists only of letters, digits, '-' and '.'. A search for any other byte thus
// finds its end; the caller must check the byte found.
struct EndsPlainName {
  static constexpr std::size_t lookback = 0;
  static bool test(const char* at) {
    const char c = *at;
    const char letter = static_cast<char>(c | 0x20);
    return !(is_digit(c) || (letter >= 'a' && letter <= 'z') || c == '-' || c == '.');
  }
#if defined(__SSE2__)
  static __m128i within(__m128i bytes, char first, char last) {
    const __m128i offset = _mm_sub_epi8(bytes, _mm_set1_epi8(first));
    return _mm_cmpeq_epi8(_mm_min_epu8(offset, _mm_set1_epi8(static_cast<char>(last - first))), offset);
  }
  static unsigned mask(const char* at) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
    const __m128i letters = within(_mm_or_si128(bytes, _mm_set1_epi8(0x20)), 'a', 'z');
    const __m128i others = _mm_or_si128(within(bytes, '0', '9'), within(bytes, '-', '.'));
    return static_cast<unsigned>(_mm_movemask_epi8(_mm_or_si128(letters, others))) ^ 0xFFFFu;
  }
#endif
};

// The slow part of find_first(), not inlined because most tokens end within the first vector.
template <class Class>
[[gnu::noinline]] inline const char* find_first_further(const char* base, const char* p, const char* end) {
#if defined(__SSE2__)
  constexpr std::ptrdiff_t width = 16;
  while (end - p >= width) {
    if (const unsigned mask = Class::mask(p)) return p + __builtin_ctz(mask);
    p += width;
  }
  if (p == end) return end;
  if (end - base >= width + static_cast<std::ptrdiff_t>(Class::lookback)) {
    const char* const last = end - width;
    const unsigned mask = Class::mask(last) >> (p - last);
    return mask != 0 ? p + __builtin_ctz(mask) : end;
  }
#else
  static_cast<void>(base);
#endif
  while (p != end && !Class::test(p)) ++p;
  return p;
}

// Returns the first byte in [p, end) for which `Class` tests true, or `end` if no byte does. `base` <= p is where the
// readable bytes begin; a class with a lookback needs p - lookback >= base.
template <class Class>
inline const char* find_first(const char* base, const char* p, const char* end) {
#if defined(__SSE2__)
  if (end - p >= 16) [[likely]] {
    if (const unsigned mask = Class::mask(p)) [[likely]]
      return p + __builtin_ctz(mask);
    p += 16;
  }
#endif
  return find_first_further<Class>(base, p, end);
}

// Whether [p, end) is a token and therefore a valid field name.
inline bool is_field_name(const char* base, const char* p, const char* end) {
  if (p == end) return false;
  p = find_first<EndsPlainName>(base, p, end);
  while (p != end && is_token_char(*p)) ++p;
  return p == end;
}

// Whether [p, end) is a valid field value.
inline bool is_field_value(const char* base, const char* p, const char* end) {
  return find_first<EndsValue>(base, p, end) == end;
}

}  // namespace sluice::http::h1
