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

// What a Range field asks of a representation of a known size (RFC 9110, 14.2).
//
// Parts do not overlap, and lie so far apart that sending what is between them would cost more than a part of its own:
// ranges that are nearer become one. They keep the order in which they were asked for.
class RangeSet {
 public:
  static constexpr std::size_t most_ranges = 32;  // who asks for more gets the whole
  static constexpr std::uint64_t nearest = 128;   // bytes between two parts, about as long as a part's header

  enum class Kind : std::uint8_t {
    whole,          // there is no range to obey: another unit, malformed, or asked for too much
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
