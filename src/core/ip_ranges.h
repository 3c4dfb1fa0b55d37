#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::core {

// An IPv4 or IPv6 address as a number. An IPv4 address has the number of the IPv6 address that is mapped to it, so that
// 10.0.0.1 and ::ffff:10.0.0.1 are the same.
struct Ip {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  // Parses an address without port, zone or brackets. Returns nullopt if it is not an address.
  [[nodiscard]] static std::optional<Ip> parse(std::string_view text);

  friend constexpr auto operator<=>(const Ip&, const Ip&) = default;
};

// A set of addresses. A lookup is a binary search over the ranges.
class IpRanges {
 public:
  // Adds an address or a prefix: "10.0.0.1", "10.0.0.0/8", "2001:db8::/32". An IPv6 prefix contains no IPv4 addresses,
  // unless it is a prefix of mapped addresses (::ffff:10.0.0.0/104). Returns false if check() reports an error.
  bool add(std::string_view text);
  // Returns what is wrong with the text; empty if it is valid. Host bits after the prefix are an error: 10.0.0.1/8.
  [[nodiscard]] static std::string check(std::string_view text);

  // Sorts the ranges and merges overlapping ones. Call it after the last add() and before the first contains().
  void seal();
  [[nodiscard]] bool contains(const Ip& ip) const;
  [[nodiscard]] bool empty() const { return ranges_.empty(); }
  [[nodiscard]] std::size_t size() const { return ranges_.size(); }

 private:
  struct Range {
    Ip first;
    Ip last;
    friend constexpr auto operator<=>(const Range&, const Range&) = default;
  };

  std::vector<Range> ranges_;  // after seal(): ascending, with gaps between them
};

}  // namespace sluice::core
