#include "ws/utf8.h"

#include <algorithm>
#include <cstring>

#include "base/utf8.h"

namespace sluice::ws {
namespace {

// The number of bytes at the end that may belong to an incomplete character: at most three.
std::size_t open_tail(std::string_view text) {
  const std::size_t most = std::min<std::size_t>(text.size(), 3);
  for (std::size_t back = 1; back <= most; ++back) {
    const auto byte = static_cast<std::uint8_t>(text[text.size() - back]);
    if (byte < 0x80) return 0;
    if (byte >= 0xC0) {
      const std::size_t size = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : 2;
      return size > back ? back : 0;
    }
  }
  return 0;
}

}  // namespace

bool Utf8Validator::step(std::uint8_t byte) {
  if (missing_ != 0) {
    if (byte < least_ || byte > most_) return false;
    least_ = 0x80;
    most_ = 0xBF;
    --missing_;
    return true;
  }
  if (byte < 0x80) return true;
  if (byte < 0xC2 || byte > 0xF4) return false;
  least_ = byte == 0xE0 ? 0xA0 : byte == 0xF0 ? 0x90 : 0x80;
  most_ = byte == 0xED ? 0x9F : byte == 0xF4 ? 0x8F : 0xBF;
  missing_ = byte >= 0xF0 ? 3 : byte >= 0xE0 ? 2 : 1;
  return true;
}

bool Utf8Validator::feed(std::string_view piece) {
  std::size_t begin = 0;
  while (missing_ != 0 && begin < piece.size()) {
    if (!step(static_cast<std::uint8_t>(piece[begin++]))) return false;
  }
  piece.remove_prefix(begin);
  const std::size_t tail = open_tail(piece);
  if (!is_utf8(piece.substr(0, piece.size() - tail))) return false;
  for (const char byte : piece.substr(piece.size() - tail)) {
    if (!step(static_cast<std::uint8_t>(byte))) return false;
  }
  return true;
}

}  // namespace sluice::ws
