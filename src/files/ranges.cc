#include "files/ranges.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "base/ascii.h"
#include "http/fields.h"

namespace sluice::files {
namespace {

constexpr std::uint64_t largest = std::numeric_limits<std::uint64_t>::max();

// One or more digits. Larger numbers are reduced to the largest possible one.
std::optional<std::uint64_t> parse_number(std::string_view text) {
  if (text.empty()) return std::nullopt;
  std::uint64_t value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    const auto digit = static_cast<std::uint64_t>(c - '0');
    value = value > (largest - digit) / 10 ? largest : value * 10 + digit;
  }
  return value;
}

}  // namespace

RangeSet::RangeSet(std::string_view field, std::uint64_t size) {
  const auto equals = field.find('=');
  if (equals == std::string_view::npos || !http::same_name(field.substr(0, equals), "bytes")) return;
  std::size_t asked = 0;
  bool satisfiable = false;
  for (std::string_view rest = field.substr(equals + 1);;) {
    const auto comma = rest.find(',');
    const std::string_view spec = trim_blanks(rest.substr(0, comma));
    if (!spec.empty()) {  // empty list elements are ignored (RFC 9110, 5.6.1.2)
      if (++asked > most_ranges) return;
      const auto dash = spec.find('-');
      if (dash == std::string_view::npos) return;
      const std::string_view last_text = spec.substr(dash + 1);
      if (dash == 0) {  // the last bytes, or the whole if it is shorter
        const auto wanted = parse_number(last_text);
        if (!wanted) return;
        satisfiable |= *wanted != 0;
        const std::uint64_t count = std::min(*wanted, size);
        if (count != 0) add({size - count, count});
      } else {
        const auto first = parse_number(spec.substr(0, dash));
        const auto last = last_text.empty() ? std::optional(largest) : parse_number(last_text);
        if (!first || !last || *last < *first) return;
        if (*first < size) {
          satisfiable = true;
          add({*first, std::min(*last, size - 1) - *first + 1});
        }
      }
    }
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  if (asked == 0) return;
  // The last bytes of an empty file are the whole file, which Content-Range cannot express.
  if (satisfiable && count_ == 0) return;
  kind_ = satisfiable ? Kind::parts : Kind::unsatisfiable;
}

void RangeSet::add(ByteRange range) {
  // Ranges that are close together are merged in the place of the first one. The merged range may then touch others.
  std::size_t place = count_;
  for (std::size_t i = 0; i < count_;) {
    ByteRange& other = parts_[i];
    const std::uint64_t end = range.begin + range.size;
    const std::uint64_t other_end = other.begin + other.size;
    const bool apart =
        range.begin > other_end ? range.begin - other_end > nearest : other.begin > end && other.begin - end > nearest;
    if (apart) {
      ++i;
      continue;
    }
    range.begin = std::min(range.begin, other.begin);
    range.size = std::max(end, other_end) - range.begin;
    place = std::min(place, i);
    std::copy(parts_.begin() + i + 1, parts_.begin() + count_, parts_.begin() + i);
    --count_;
    i = 0;
  }
  place = std::min(place, count_);
  std::copy_backward(parts_.begin() + place, parts_.begin() + count_, parts_.begin() + count_ + 1);
  parts_[place] = range;
  ++count_;
}

}  // namespace sluice::files
