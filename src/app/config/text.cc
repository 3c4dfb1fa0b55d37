#include "app/config/text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <vector>

namespace sluice::app::config {
namespace {

struct Unit {
  std::string_view name;
  std::int64_t size;
};

// The largest unit first.
constexpr std::array duration_units = {
    Unit{"d", Duration(24h).count()}, Unit{"h", Duration(1h).count()},   Unit{"m", Duration(1min).count()},
    Unit{"s", Duration(1s).count()},  Unit{"ms", Duration(1ms).count()}, Unit{"us", Duration(1us).count()},
};
constexpr std::array size_units = {
    Unit{"GiB", 1 << 30},
    Unit{"MiB", 1 << 20},
    Unit{"KiB", 1 << 10},
    Unit{"B", 1},
};

// Removes the digits at the beginning of the text and returns them.
std::optional<std::int64_t> take_number(std::string_view& text) {
  std::int64_t number = 0;
  if (text.empty() || text[0] < '0' || text[0] > '9') return {};
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return {};
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

// Optimal string alignment distance: counts insertions, deletions, substitutions and transpositions of neighbours.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), previous(b.size() + 1), current(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) previous[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    current[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      bool same = a[i - 1] == b[j - 1];
      current[j] = std::min({previous[j] + 1, current[j - 1] + 1, previous[j - 1] + (same ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        current[j] = std::min(current[j], before[j - 2] + 1);
      }
    }
    before.swap(previous);
    previous.swap(current);
  }
  return previous[b.size()];
}

}  // namespace

std::optional<Duration> parse_duration(std::string_view text) {
  if (text == "0") return Duration(0);
  std::int64_t total = 0;
  std::size_t next_unit = 0;
  do {
    auto number = take_number(text);
    if (!number) return {};
    std::string_view name = text.substr(0, std::min(text.find_first_of("0123456789"), text.size()));
    auto unit = std::find_if(duration_units.begin() + next_unit, duration_units.end(),
                             [&](const Unit& one) { return one.name == name; });
    if (unit == duration_units.end()) return {};
    std::int64_t part = 0;
    if (__builtin_mul_overflow(*number, unit->size, &part) || __builtin_add_overflow(total, part, &total)) return {};
    next_unit = static_cast<std::size_t>(unit - duration_units.begin()) + 1;
    text.remove_prefix(name.size());
  } while (!text.empty());
  return Duration(total);
}

std::string format_duration(Duration duration) {
  std::int64_t rest = duration.count();
  std::string text;
  for (const Unit& unit : duration_units) {
    if (rest / unit.size == 0) continue;
    text += std::to_string(rest / unit.size);
    text += unit.name;
    rest %= unit.size;
  }
  return text.empty() ? "0s" : text;
}

std::optional<ByteSize> parse_size(std::string_view text) {
  auto number = take_number(text);
  if (!number) return {};
  if (text.empty()) return ByteSize{static_cast<std::uint64_t>(*number)};
  auto unit = std::ranges::find(size_units, text, &Unit::name);
  std::int64_t bytes = 0;
  if (unit == size_units.end() || __builtin_mul_overflow(*number, unit->size, &bytes)) return {};
  return ByteSize{static_cast<std::uint64_t>(bytes)};
}

std::string format_size(ByteSize size) {
  for (const Unit& unit : size_units) {
    auto bytes = static_cast<std::uint64_t>(unit.size);
    if (size.bytes >= bytes && size.bytes % bytes == 0)
      return std::to_string(size.bytes / bytes) + std::string(unit.name);
  }
  return "0";
}

std::string quote(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

std::string_view nearest(std::string_view text, std::span<const std::string_view> candidates) {
  // Declared names are no longer than this, and computing the distance takes time in proportion to both lengths.
  if (text.size() > 64) return {};
  std::string_view best;
  std::size_t best_distance = std::max<std::size_t>(text.size() / 3, 1) + 1;
  for (std::string_view candidate : candidates) {
    std::size_t distance = edit_distance(text, candidate);
    if (distance < best_distance && distance < candidate.size()) {
      best = candidate;
      best_distance = distance;
    }
  }
  if (!best.empty() || text.size() < 3) return best;
  for (std::string_view candidate : candidates) {  // "integer" for "int", "header" for "header_limit"
    if (candidate.starts_with(text) || (candidate.size() >= 3 && text.starts_with(candidate))) return candidate;
  }
  return {};
}

std::string did_you_mean(std::string_view text, std::span<const std::string_view> candidates) {
  std::string_view best = nearest(text, candidates);
  if (best.empty()) return {};
  return "did you mean \"" + std::string(best) + "\"?";
}

}  // namespace sluice::app::config
