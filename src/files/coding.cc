#include "files/coding.h"

#include "http/compress/negotiate.h"

namespace sluice::files {

std::string_view name_of(Coding coding) {
  using http::compress::name_of;
  switch (coding) {
    case Coding::gzip:
      return name_of(http::compress::Coding::gzip);
    case Coding::brotli:
      return name_of(http::compress::Coding::brotli);
    case Coding::zstd:
      return name_of(http::compress::Coding::zstd);
    case Coding::identity:
      break;
  }
  return {};
}

std::string_view suffix_of(Coding coding) {
  constexpr std::array<std::string_view, coding_count> suffixes{"", ".gz", ".br", ".zst"};
  return suffixes[static_cast<std::size_t>(coding)];
}

Coding choose_coding(std::span<const http::Field> fields, const std::array<std::uint64_t, coding_count>& sizes) {
  const http::compress::Acceptance acceptance = http::compress::parse_accept_encoding(fields);
  const auto quality_of = [&](Coding coding) -> std::uint16_t {
    switch (coding) {
      case Coding::gzip:
        return acceptance.codings[static_cast<std::size_t>(http::compress::Coding::gzip)];
      case Coding::brotli:
        return acceptance.codings[static_cast<std::size_t>(http::compress::Coding::brotli)];
      case Coding::zstd:
        return acceptance.codings[static_cast<std::size_t>(http::compress::Coding::zstd)];
      case Coding::identity:
        break;
    }
    return acceptance.identity;
  };
  std::size_t best = 0;
  std::uint16_t best_quality = acceptance.identity;
  for (std::size_t i = 1; i < coding_count; ++i) {
    const std::uint16_t quality = quality_of(static_cast<Coding>(i));
    if (sizes[i] == 0 || quality == 0 || quality < best_quality) continue;
    if (quality > best_quality || best == 0 || sizes[i] < sizes[best]) {
      best = i;
      best_quality = quality;
    }
  }
  return static_cast<Coding>(best);
}

}  // namespace sluice::files
