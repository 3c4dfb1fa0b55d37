#pragma once

#include <cstdint>
#include <string_view>

namespace sluice::ws {

// Whether bytes are UTF-8 (RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF), told of them piece by
// piece. A character may be split between pieces. What cannot become a character any more is refused with the byte
// that makes it so.
class Utf8Validator {
 public:
  // False: not UTF-8. Nothing may be fed any more, until reset().
  [[nodiscard]] bool feed(std::string_view piece);
  // What was fed does not end within a character.
  [[nodiscard]] bool complete() const { return missing_ == 0; }
  void reset() { missing_ = 0; }

 private:
  [[nodiscard]] bool step(std::uint8_t byte);

  // Of the character that has begun: how many bytes it lacks, and what the next of them may be.
  std::uint8_t missing_ = 0;
  std::uint8_t least_ = 0x80;
  std::uint8_t most_ = 0xBF;
};

}  // namespace sluice::ws
