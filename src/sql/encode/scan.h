#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

// Processes sixteen bytes at a time: copies them and finds those that a format must escape.
namespace sluice::sql::encode {

// Every writer may store this many bytes past the end of what it writes.
inline constexpr std::size_t slack = 32;

#if defined(__SSE2__)

class Chunk {
 public:
  static constexpr std::size_t size = 16;

  [[nodiscard]] static Chunk load(const char* from) {
    return Chunk(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  }
  [[nodiscard]] static Chunk of(std::uint64_t low, std::uint64_t high) {
    return Chunk(_mm_set_epi64x(static_cast<long long>(high), static_cast<long long>(low)));
  }
  void store(char* to) const { _mm_storeu_si128(reinterpret_cast<__m128i*>(to), bytes_); }

  // Bit i is set if byte i matches.
  [[nodiscard]] unsigned quotes() const { return mask(equal('"')); }
  [[nodiscard]] unsigned beyond_ascii() const { return mask(bytes_); }
  // NUL or beyond ASCII: less than 1 as a signed number.
  [[nodiscard]] unsigned no_plain_text() const { return mask(_mm_cmplt_epi8(bytes_, _mm_set1_epi8(1))); }
  [[nodiscard]] unsigned json_specials() const {
    // Flipping bit 1 swaps '"' (0x22) with ' ' (0x20) and keeps the controls below 0x20: one comparison finds both.
    const __m128i flipped = _mm_xor_si128(bytes_, _mm_set1_epi8(2));
    const __m128i low = _mm_cmpeq_epi8(_mm_min_epu8(flipped, _mm_set1_epi8(0x20)), flipped);
    return mask(_mm_or_si128(low, equal('\\')));
  }
  [[nodiscard]] unsigned csv_specials(char delimiter = ',') const {
    return mask(_mm_or_si128(_mm_or_si128(equal('"'), equal(delimiter)), _mm_or_si128(equal('\n'), equal('\r'))));
  }
  [[nodiscard]] bool all_digits() const {
    const __m128i value = _mm_sub_epi8(bytes_, _mm_set1_epi8('0'));
    return mask(_mm_cmpeq_epi8(_mm_min_epu8(value, _mm_set1_epi8(9)), value)) == 0xffff;
  }
  [[nodiscard]] Chunk without_line_ends() const {
    const __m128i ends = _mm_or_si128(equal('\n'), equal('\r'));
    return Chunk(_mm_or_si128(_mm_andnot_si128(ends, bytes_), _mm_and_si128(ends, _mm_set1_epi8(' '))));
  }

 private:
  explicit Chunk(__m128i bytes) : bytes_(bytes) {}
  [[nodiscard]] __m128i equal(char byte) const { return _mm_cmpeq_epi8(bytes_, _mm_set1_epi8(byte)); }
  [[nodiscard]] static unsigned mask(__m128i flags) { return static_cast<unsigned>(_mm_movemask_epi8(flags)); }

  __m128i bytes_;
};

#else

class Chunk {
 public:
  static constexpr std::size_t size = 16;

  [[nodiscard]] static Chunk load(const char* from) {
    Chunk chunk;
    std::memcpy(chunk.bytes_.data(), from, size);
    return chunk;
  }
  [[nodiscard]] static Chunk of(std::uint64_t low, std::uint64_t high) {
    Chunk chunk;
    std::memcpy(chunk.bytes_.data(), &low, 8);
    std::memcpy(chunk.bytes_.data() + 8, &high, 8);
    return chunk;
  }
  void store(char* to) const { std::memcpy(to, bytes_.data(), size); }

  [[nodiscard]] unsigned quotes() const {
    return mask([](unsigned char byte) { return byte == '"'; });
  }
  [[nodiscard]] unsigned beyond_ascii() const {
    return mask([](unsigned char byte) { return byte >= 0x80; });
  }
  [[nodiscard]] unsigned no_plain_text() const {
    return mask([](unsigned char byte) { return byte == 0 || byte >= 0x80; });
  }
  [[nodiscard]] unsigned json_specials() const {
    return mask([](unsigned char byte) { return byte < 0x20 || byte == '"' || byte == '\\'; });
  }
  [[nodiscard]] unsigned csv_specials(char delimiter = ',') const {
    return mask([delimiter](char byte) { return byte == '"' || byte == delimiter || byte == '\n' || byte == '\r'; });
  }
  [[nodiscard]] bool all_digits() const {
    return mask([](unsigned char byte) { return byte >= '0' && byte <= '9'; }) == 0xffff;
  }
  [[nodiscard]] Chunk without_line_ends() const {
    Chunk chunk = *this;
    for (char& byte : chunk.bytes_) {
      if (byte == '\n' || byte == '\r') byte = ' ';
    }
    return chunk;
  }

 private:
  template <class Predicate>
  [[nodiscard]] unsigned mask(Predicate predicate) const {
    unsigned result = 0;
    for (std::size_t i = 0; i < size; ++i) {
      if (predicate(static_cast<unsigned char>(bytes_[i]))) result |= 1u << i;
    }
    return result;
  }

  std::array<char, size> bytes_;
};

#endif

// Fewer than sixteen bytes, read as two overlapping halves without touching a byte outside of them. store() writes the
// halves back to their places. In chunk(), missing bytes read as '0', which no format escapes.
class Short {
 public:
  [[nodiscard]] static Short load(const char* from, std::size_t size) {
    Short result;
    result.size_ = size;
    if (size >= 8) {
      result.low_ = load_as<std::uint64_t>(from);
      result.high_ = load_as<std::uint64_t>(from + size - 8);
    } else if (size >= 4) {
      result.low_ = load_as<std::uint32_t>(from);
      result.high_ = load_as<std::uint32_t>(from + size - 4);
      result.high_ |= result.low_ << 32;
    } else if (size != 0) {
      // First, middle, last: they overlap if there are fewer than three bytes.
      result.low_ = byte(from, 0) | byte(from, size / 2) << 8 | byte(from, size - 1) << 16 | zeros << 24;
      result.high_ = zeros;
    }
    return result;
  }

  [[nodiscard]] Chunk chunk() const {
    if (size_ >= 8) return Chunk::of(low_, high_);
    if (size_ >= 4) return Chunk::of(high_, high_);
    return Chunk::of(low_, high_);
  }

  // Returns the end of what was stored.
  [[nodiscard]] char* store(char* to) const {
    if (size_ >= 8) {
      std::memcpy(to, &low_, 8);
      std::memcpy(to + size_ - 8, &high_, 8);
    } else if (size_ >= 4) {
      std::memcpy(to, &low_, 4);
      std::memcpy(to + size_ - 4, &high_, 4);
    } else if (size_ != 0) {
      to[0] = static_cast<char>(low_);
      to[size_ / 2] = static_cast<char>(low_ >> 8);
      to[size_ - 1] = static_cast<char>(low_ >> 16);
    }
    return to + size_;
  }

 private:
  static constexpr std::uint64_t zeros = 0x3030303030303030;

  template <class T>
  [[nodiscard]] static std::uint64_t load_as(const char* from) {
    static_assert(std::endian::native == std::endian::little);
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
  }
  [[nodiscard]] static std::uint64_t byte(const char* from, std::size_t at) {
    return static_cast<unsigned char>(from[at]);
  }

  std::uint64_t low_ = zeros;
  std::uint64_t high_ = zeros;
  std::size_t size_ = 0;
};

// Copies whole chunks: both sides need room for one chunk past the end.
[[nodiscard]] inline char* copy_padded(char* out, const char* from, std::size_t size) {
  std::size_t at = 0;
  do {
    Chunk::load(from + at).store(out + at);
    at += Chunk::size;
  } while (at < size);
  return out + size;
}

[[nodiscard]] inline char* copy(char* out, const char* from, std::size_t size) {
  if (size < Chunk::size) return Short::load(from, size).store(out);
  std::memcpy(out, from, size);
  return out + size;
}

}  // namespace sluice::sql::encode
