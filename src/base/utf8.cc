#include "base/utf8.h"

#include <cstring>

#include <simdjson.h>

namespace sluice {
namespace {

// Below this size, checking eight bytes at a time is cheaper than the call.
constexpr std::size_t short_bytes = 128;

bool is_ascii(std::string_view text) {
  std::uint64_t all = 0;
  std::uint64_t word = 0;
  for (; text.size() >= sizeof word; text.remove_prefix(sizeof word)) {
    std::memcpy(&word, text.data(), sizeof word);
    all |= word;
  }
  word = 0;
  if (!text.empty()) std::memcpy(&word, text.data(), text.size());
  return ((all | word) & 0x8080808080808080) == 0;
}

}  // namespace

bool is_utf8(std::string_view text) {
  if (text.size() <= short_bytes && is_ascii(text)) return true;
  return simdjson::validate_utf8(text.data(), text.size());
}

}  // namespace sluice
