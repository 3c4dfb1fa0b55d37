#include "sql/sqlite/json_text.h"

#include <bitset>
#include <cstdint>
#include <cstring>

namespace sluice::sql::sqlite {
namespace {

class Scanner {
 public:
  explicit Scanner(std::string_view text) : at_(text.data()), end_(text.data() + text.size()) {}

  bool document() {
    unsigned depth = 0;
    for (;;) {
      // A value begins here.
      skip_blanks();
      if (at_ == end_) return false;
      if (*at_ == '{' || *at_ == '[') {
        const bool object = *at_++ == '{';
        if (depth == json_max_depth) return false;
        objects_[depth++] = object;
        skip_blanks();
        if (at_ == end_) return false;
        if (*at_ != (object ? '}' : ']')) {
          if (object && !key()) return false;
          continue;
        }
        ++at_;
        --depth;
      } else if (!scalar()) {
        return false;
      }
      // A value has ended here, and perhaps the array or object that contains it.
      for (;;) {
        skip_blanks();
        if (depth == 0) return at_ == end_;
        if (at_ == end_) return false;
        const bool object = objects_[depth - 1];
        const char c = *at_++;
        if (c == ',') {
          if (object && !key()) return false;
          break;
        }
        if (c != (object ? '}' : ']')) return false;
        --depth;
      }
    }
  }

 private:
  void skip_blanks() {
    while (at_ != end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\r' || *at_ == '\t')) ++at_;
  }

  bool key() {
    skip_blanks();
    if (at_ == end_ || *at_ != '"' || !string()) return false;
    skip_blanks();
    return at_ != end_ && *at_++ == ':';
  }

  bool scalar() {
    switch (*at_) {
      case '"':
        return string();
      case 't':
        return word("true");
      case 'f':
        return word("false");
      case 'n':
        return word("null");
      default:
        return number();
    }
  }

  bool word(std::string_view expected) {
    if (static_cast<std::size_t>(end_ - at_) < expected.size()) return false;
    if (std::memcmp(at_, expected.data(), expected.size()) != 0) return false;
    at_ += expected.size();
    return true;
  }

  bool digits() {
    const char* begin = at_;
    while (at_ != end_ && *at_ >= '0' && *at_ <= '9') ++at_;
    return at_ != begin;
  }

  bool number() {
    if (*at_ == '-') ++at_;
    if (at_ == end_) return false;
    if (*at_ == '0') {
      ++at_;
    } else if (!digits()) {
      return false;
    }
    if (at_ != end_ && *at_ == '.') {
      ++at_;
      if (!digits()) return false;
    }
    if (at_ != end_ && (*at_ == 'e' || *at_ == 'E')) {
      ++at_;
      if (at_ != end_ && (*at_ == '+' || *at_ == '-')) ++at_;
      if (!digits()) return false;
    }
    return true;
  }

  // Checks eight bytes at once: true if one of them is a quote, a backslash, a control character or not ASCII (the
  // arithmetic cannot distinguish a set high bit from a borrow).
  static bool needs_look(std::uint64_t word) {
    constexpr std::uint64_t ones = 0x0101010101010101;
    constexpr std::uint64_t highs = 0x8080808080808080;
    const auto zero = [](std::uint64_t v) { return (v - ones) & ~v; };
    return ((zero(word ^ (ones * '"')) | zero(word ^ (ones * '\\')) | (word - ones * 0x20) | word) & highs) != 0;
  }

  bool string() {
    ++at_;
    for (;;) {
      while (end_ - at_ >= 8) {
        std::uint64_t word = 0;
        std::memcpy(&word, at_, 8);
        if (needs_look(word)) break;
        at_ += 8;
      }
      for (int i = 0; i < 8; ++i) {
        if (at_ == end_) return false;
        const auto c = static_cast<unsigned char>(*at_++);
        if (c == '"') return true;
        if (c < 0x20) return false;
        if (c == '\\' && !escape()) return false;
      }
    }
  }

  bool escape() {
    if (at_ == end_) return false;
    const char c = *at_++;
    if (c != 'u') return c != '\0' && std::strchr("\"\\/bfnrt", c) != nullptr;
    if (end_ - at_ < 4) return false;
    for (int i = 0; i < 4; ++i) {
      const char digit = *at_++;
      const bool hex =
          (digit >= '0' && digit <= '9') || (digit >= 'a' && digit <= 'f') || (digit >= 'A' && digit <= 'F');
      if (!hex) return false;
    }
    return true;
  }

  const char* at_;
  const char* end_;
  std::bitset<json_max_depth> objects_;
};

}  // namespace

bool is_json(std::string_view text) { return Scanner(text).document(); }

}  // namespace sluice::sql::sqlite
