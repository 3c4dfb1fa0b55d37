#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#if defined(__SSE2__)
#include <emmintrin.h>

#include "base/ascii.h"
#endif

// Byte classes of RFC 9110 and 9112, and the search for the first byte that ends a token. The search never reads
// outside [base, end): the last, short piece is covered by a load that ends at `end` and overlaps what has been looked
// at.
namespace sluice::http::h1 {

inline bool is_ows(char c) { return c == ' ' || c == '\t'; }

// Calls `each` with the trimmed elements of a comma-separated list, empty ones too.
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

// What may not be inside a field value: control characters but HTAB. CR is one of them, so the value's end is found
// too.
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

// What is not visible ASCII, '#' (no target has a fragment), and '?'.
struct EndsTarget {
  static constexpr std::size_t lookback = 0;
  static bool test(const char* at) {
    const auto c = static_cast<unsigned char>(*at);
    return c < 0x21 || c > 0x7E || c == '#' || c == '?';
  }
#if defined(__SSE2__)
  static __m128i classify(__m128i bytes) {
    const __m128i outside = _mm_or_si128(_mm_cmplt_epi8(bytes, _mm_set1_epi8(0x21)),  // signed: above 0x7F as well
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

// Visible, but in no URI (RFC 3986, 2), and sent by no browser in a path: a backslash, which many take for a slash,
// quotes and angle brackets. The others that are in no URI ('|', '^', braces ...) are data.
inline bool is_refused_in_path(char c) { return c == '\\' || c == '"' || c == '<' || c == '>'; }

// Likewise, what a path is refused for, and what makes it differ from its decoded form: '%', the second byte of "//"
// and of "/.".
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
    const __m128i brackets =
        _mm_cmpeq_epi8(_mm_or_si128(bytes, _mm_set1_epi8('<' ^ '>')), _mm_set1_epi8('<' | '>'));  // no other byte's
    const __m128i others =
        _mm_or_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\')), _mm_cmpeq_epi8(bytes, _mm_set1_epi8('"')));
    const __m128i ends = _mm_or_si128(_mm_or_si128(EndsTarget::classify(bytes), odd), _mm_or_si128(brackets, others));
    return static_cast<unsigned>(_mm_movemask_epi8(ends));
  }
#endif
};

// What is no letter, digit, '-' or '.': those are nearly every field name and host. The caller judges the byte found.
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

// The rest of find_first(), out of its way: most tokens end within the first vector.
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

// The first byte in [p, end) that `Class` tests true for; `end` where there is none. `base` <= p is where the readable
// bytes begin; a class that looks back needs p - lookback >= base.
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

}  // namespace sluice::http::h1
