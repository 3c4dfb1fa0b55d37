#include "http/compress/negotiate.h"

#include "base/ascii.h"

namespace sluice::http::compress {
namespace {

constexpr std::array<std::string_view, coding_count> names{"gzip", "br", "zstd"};
constexpr std::uint16_t unsaid = 0xFFFF;

// "q=0.85" gives 850 (RFC 9110, 12.4.2). Returns nothing if the text is not a weight.
std::optional<std::uint16_t> parse_weight(std::string_view text) {
  if (text.size() < 3 || (text[0] != 'q' && text[0] != 'Q') || text[1] != '=') return std::nullopt;
  text.remove_prefix(2);
  if (text.size() > 5 || (text[0] != '0' && text[0] != '1')) return std::nullopt;
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

Acceptance parse_accept_encoding(std::span<const Field> fields) {
  std::array<std::uint16_t, coding_count> said{unsaid, unsaid, unsaid};
  std::uint16_t identity = unsaid;
  std::uint16_t others = unsaid;
  for (const Field& field : fields) {
    if (field.name.size() != 15 || !same_name(field.name, "accept-encoding")) continue;
    for (std::string_view rest = field.value; !rest.empty();) {
      const auto comma = rest.find(',');
      const std::string_view item = trim_blanks(rest.substr(0, comma));
      rest = comma == std::string_view::npos ? std::string_view{} : rest.substr(comma + 1);
      const auto semicolon = item.find(';');
      const std::string_view name = trim_blanks(item.substr(0, semicolon));
      std::optional<std::uint16_t> quality = 1000;
      if (semicolon != std::string_view::npos) quality = parse_weight(trim_blanks(item.substr(semicolon + 1)));
      if (!quality) continue;
      std::uint16_t* place = nullptr;
      switch (name.size()) {
        case 1:
          if (name == "*") place = &others;
          break;
        case 2:
          if (same_name(name, "br")) place = &said[static_cast<std::size_t>(Coding::brotli)];
          break;
        case 4:
          if (same_name(name, "gzip")) place = &said[static_cast<std::size_t>(Coding::gzip)];
          if (same_name(name, "zstd")) place = &said[static_cast<std::size_t>(Coding::zstd)];
          break;
        case 6:  // RFC 9110, 8.4.1.3: the same as gzip
          if (same_name(name, "x-gzip")) place = &said[static_cast<std::size_t>(Coding::gzip)];
          break;
        case 8:
          if (same_name(name, "identity")) place = &identity;
          break;
        default:
          break;
      }
      if (place != nullptr && *place == unsaid) *place = *quality;
    }
  }

  Acceptance acceptance;
  const std::uint16_t otherwise = others == unsaid ? std::uint16_t{0} : others;
  for (std::size_t i = 0; i < coding_count; ++i) acceptance.codings[i] = said[i] == unsaid ? otherwise : said[i];
  acceptance.identity = identity == unsaid ? otherwise : identity;
  acceptance.identity_refused = identity == 0 || (identity == unsaid && others == 0);
  return acceptance;
}

std::optional<Coding> choose(const Acceptance& acceptance, std::span<const Coding> offered) {
  std::optional<Coding> best;
  std::uint16_t best_quality = 0;
  for (const Coding coding : offered) {
    const std::uint16_t quality = acceptance.codings[static_cast<std::size_t>(coding)];
    if (quality <= best_quality) continue;
    best = coding;
    best_quality = quality;
  }
  if (acceptance.identity > best_quality) return std::nullopt;
  return best;
}

}  // namespace sluice::http::compress
