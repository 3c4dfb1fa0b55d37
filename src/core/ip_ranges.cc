#include "core/ip_ranges.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <expected>
#include <limits>

#include <arpa/inet.h>
#include <netinet/in.h>

namespace sluice::core {
namespace {

constexpr std::uint64_t all_bits = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t mapped = 0xffff'0000'0000;  // ::ffff:0:0
constexpr Ip first_mapped{0, mapped};
constexpr Ip last_mapped{0, mapped | 0xffff'ffff};

std::uint64_t read_big_endian(const unsigned char* bytes, std::size_t count) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < count; ++i) value = value << 8 | bytes[i];
  return value;
}

// The bits after a prefix of `length` out of 128 bits.
Ip free_bits(unsigned length) {
  if (length >= 64) return {0, length == 128 ? 0 : all_bits >> (length - 64)};
  return {length == 0 ? all_bits : all_bits >> length, all_bits};
}

struct Prefix {
  Ip first;
  Ip last;
};

std::expected<Prefix, std::string> parse_prefix(std::string_view text) {
  const std::size_t slash = std::min(text.find('/'), text.size());
  const std::string_view address = text.substr(0, slash);
  const auto ip = Ip::parse(address);
  if (!ip) return std::unexpected("must be an address or a prefix, such as \"10.0.0.0/8\" or \"2001:db8::/32\"");
  if (slash == text.size()) return Prefix{*ip, *ip};
  const bool is_v6 = address.contains(':');
  const unsigned most = is_v6 ? 128 : 32;
  const std::string_view digits = text.substr(slash + 1);
  unsigned length = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), length);
  const bool is_number = error == std::errc{} && end == digits.data() + digits.size();
  if (!is_number || length > most || (digits.size() > 1 && digits.starts_with('0'))) {
    return std::unexpected(is_v6 ? "the length of an IPv6 prefix is 0 to 128"
                                 : "the length of an IPv4 prefix is 0 to 32");
  }
  const Ip free = free_bits(is_v6 ? length : length + 96);
  if ((ip->high & free.high) != 0 || (ip->low & free.low) != 0) {
    return std::unexpected("has bits set behind its prefix");
  }
  return Prefix{*ip, {ip->high | free.high, ip->low | free.low}};
}

}  // namespace

std::optional<Ip> Ip::parse(std::string_view text) {
  char terminated[INET6_ADDRSTRLEN];
  if (text.empty() || text.size() >= sizeof terminated || text.contains('\0')) return std::nullopt;
  std::memcpy(terminated, text.data(), text.size());
  terminated[text.size()] = '\0';
  unsigned char bytes[16];
  if (inet_pton(AF_INET, terminated, bytes) == 1) return Ip{0, mapped | read_big_endian(bytes, 4)};
  if (inet_pton(AF_INET6, terminated, bytes) != 1) return std::nullopt;
  return Ip{read_big_endian(bytes, 8), read_big_endian(bytes + 8, 8)};
}

bool IpRanges::add(std::string_view text) {
  const auto prefix = parse_prefix(text);
  if (!prefix) return false;
  // The prefix contains all mapped addresses and more, so it is meant for IPv6 only.
  if (prefix->first < first_mapped && prefix->last > last_mapped) {
    ranges_.push_back({prefix->first, {0, first_mapped.low - 1}});
    ranges_.push_back({{0, last_mapped.low + 1}, prefix->last});
  } else {
    ranges_.push_back({prefix->first, prefix->last});
  }
  return true;
}

std::string IpRanges::check(std::string_view text) {
  const auto prefix = parse_prefix(text);
  return prefix ? std::string{} : prefix.error();
}

void IpRanges::seal() {
  std::ranges::sort(ranges_);
  std::vector<Range> merged;
  for (const Range& range : ranges_) {
    if (!merged.empty() && range.first <= merged.back().last) {
      merged.back().last = std::max(merged.back().last, range.last);
    } else {
      merged.push_back(range);
    }
  }
  ranges_ = std::move(merged);
}

bool IpRanges::contains(const Ip& ip) const {
  const auto after = std::ranges::upper_bound(ranges_, ip, {}, &Range::first);
  return after != ranges_.begin() && ip <= std::prev(after)->last;
}

}  // namespace sluice::core
