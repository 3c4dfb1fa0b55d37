#include "files/coding.h"

#include <optional>

namespace sluice::files {
namespace {

constexpr std::array<std::string_view, coding_count> names{"identity", "br", "zstd", "gzip"};
constexpr std::array<std::string_view, coding_count> suffixes{"", ".br", ".zst", ".gz"};
constexpr std::uint16_t unsaid = 0xFFFF;
constexpr std::uint16_t least = 1;

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ') || text.starts_with('\t')) text.remove_prefix(1);
  while (text.ends_with(' ') || text.ends_with('\t')) text.remove_suffix(1);
  return text;
}

// "q=0.85" as 850 (RFC 9110, 12.4.2); nothing where it is no weight.
std::optional<std::uint16_t> parse_weight(std::string_view text) {
  if (!text.starts_with("q=") && !text.starts_with("Q=")) return std::nullopt;
  text.remove_prefix(2);
  if (text.empty() || text.size() > 5 || (text[0] != '0' && text[0] != '1')) return std::nullopt;
  if (text.size() > 1 && text[1] != '.') return std::nullopt;
  unsigned value = text[0] == '1' ? 1000 : 0;
  unsigned unit = 100;
  for (const char digit : text.substr(text.size() > 1 ? 2 : 1)) {
    if (digit < '0' || digit > '9') return std::nullopt;
    value += static_cast<unsigned>(digit - '0') * unit;
    unit /= 10;
  }
  if (value > 1000) return std::nullopt;
  return static_cast<std::uint16_t>(value);
}

}  // namespace

std::string_view name_of(Coding coding) { return names[static_cast<std::size_t>(coding)]; }
std::string_view suffix_of(Coding coding) { return suffixes[static_cast<std::size_t>(coding)]; }

std::array<std::uint16_t, coding_count> coding_qualities(std::span<const http::Field> fields) {
  std::array<std::uint16_t, coding_count> said;
  said.fill(unsaid);
  std::uint16_t others = unsaid;
  for (const http::Field& field : fields) {
    if (field.name.size() != 15 || !http::same_name(field.name, "accept-encoding")) continue;
    for (std::string_view rest = field.value; !rest.empty();) {
      const auto comma = rest.find(',');
      const std::string_view item = trimmed(rest.substr(0, comma));
      rest = comma == std::string_view::npos ? std::string_view{} : rest.substr(comma + 1);
      const auto semicolon = item.find(';');
      std::string_view name = trimmed(item.substr(0, semicolon));
      std::optional<std::uint16_t> quality = 1000;
      if (semicolon != std::string_view::npos) quality = parse_weight(trimmed(item.substr(semicolon + 1)));
      if (!quality) continue;
      if (name == "*" && others == unsaid) others = *quality;
      if (http::same_name(name, "x-gzip")) name = "gzip";  // RFC 9110, 8.4.1.3: they are the same
      for (std::size_t i = 0; i < coding_count; ++i) {
        if (said[i] == unsaid && http::same_name(name, names[i])) said[i] = *quality;
      }
    }
  }
  for (std::size_t i = 0; i < coding_count; ++i) {
    if (said[i] != unsaid) continue;
    said[i] = others != unsaid ? others : i == 0 ? least : std::uint16_t{0};
  }
  return said;
}

Coding choose_coding(std::span<const http::Field> fields, const std::array<std::uint64_t, coding_count>& sizes) {
  const auto qualities = coding_qualities(fields);
  std::size_t best = 0;
  for (std::size_t i = 1; i < coding_count; ++i) {
    if (sizes[i] == 0 || qualities[i] == 0 || qualities[i] < qualities[best]) continue;
    if (qualities[i] > qualities[best] || best == 0 || sizes[i] < sizes[best]) best = i;
  }
  return static_cast<Coding>(best);
}

}  // namespace sluice::files
