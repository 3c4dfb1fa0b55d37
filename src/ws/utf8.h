#pragma once

#include <cstdint>
#include <string_view>

namespace sluice::ws {

// Validates UTF-8 (RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF) piece by piece. A character may
// be split between pieces. Invalid text is refused at the first byte that cannot continue a valid character.
class Utf8Validator {
 public:
  // Returns false if the text is not UTF-8. feed() must then not be called before reset().
  [[nodiscard]] bool feed(std::string_view piece);
  // Whether the text so far ends at a character boundary.
  [[nodiscard]] bool complete() const { return missing_ == 0; }
  void reset() { missing_ = 0; }

 private:
  [[nodiscard]] bool step(std::uint8_t byte);

  // For the incomplete character: the number of missing bytes, and the range of the next byte.
  std::uint8_t missing_ = 0;
  std::uint8_t least_ = 0x80;
  std::uint8_t most_ = 0xBF;
};

}  // namespace sluice::ws
