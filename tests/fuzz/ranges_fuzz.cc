#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "files/ranges.h"

// Any bytes as a Range field for a representation of any size. The resulting ranges lie in the representation, are not
// empty and lie apart; a field that is written from them parses to the same ranges.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sluice::files;
  std::uint64_t length = 0;
  const std::size_t head = size < 4 ? size : 4;
  std::memcpy(&length, data, head);
  if (head == 4 && (data[3] & 0x80) != 0) length <<= 32;
  const std::string_view field(reinterpret_cast<const char*>(data) + head, size - head);
  const auto require = [](bool condition) {
    if (!condition) std::abort();
  };

  const RangeSet set(field, length);
  const auto parts = set.parts();
  if (set.kind() != RangeSet::Kind::parts) return 0;
  require(!parts.empty() && parts.size() <= RangeSet::most_ranges);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    require(parts[i].size != 0 && parts[i].begin < length && parts[i].size <= length - parts[i].begin);
    for (std::size_t k = 0; k < i; ++k) {
      const ByteRange& first = parts[i].begin < parts[k].begin ? parts[i] : parts[k];
      const ByteRange& second = parts[i].begin < parts[k].begin ? parts[k] : parts[i];
      require(second.begin > first.begin + first.size + RangeSet::nearest);
    }
  }

  std::string text = "bytes=";
  for (const ByteRange& part : parts) {
    text += std::to_string(part.begin) + "-" + std::to_string(part.begin + part.size - 1) + ",";
  }
  const RangeSet again(text, length);
  require(again.kind() == RangeSet::Kind::parts && again.parts().size() == parts.size());
  for (std::size_t i = 0; i < parts.size(); ++i) require(again.parts()[i] == parts[i]);
  return 0;
}
