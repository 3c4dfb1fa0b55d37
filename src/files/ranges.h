#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace sluice::files {

// Bytes [begin, begin + size) of a representation; never empty.
struct ByteRange {
  std::uint64_t begin = 0;
  std::uint64_t size = 0;

  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

// The ranges that a Range field requests from a representation of a known size (RFC 9110, 14.2).
//
// Parts do not overlap. Ranges that are close together become one part, because another part's header would cost more
// bytes than the gap. Parts keep the order of the request.
class RangeSet {
 public:
  static constexpr std::size_t most_ranges = 32;  // more ranges: the whole representation is sent
  static constexpr std::uint64_t nearest = 128;   // bytes between two parts, about as long as a part's header

  enum class Kind : std::uint8_t {
    whole,          // no range applies: another unit, malformed, or too many ranges
    unsatisfiable,  // 416
    parts,
  };

  RangeSet(std::string_view field, std::uint64_t size);

  [[nodiscard]] Kind kind() const { return kind_; }
  [[nodiscard]] std::span<const ByteRange> parts() const { return {parts_.data(), count_}; }

 private:
  void add(ByteRange range);

  Kind kind_ = Kind::whole;
  std::size_t count_ = 0;
  std::array<ByteRange, most_ranges> parts_;
};

}  // namespace sluice::files
