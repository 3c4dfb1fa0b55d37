#include "sql/encode/format.h"

#include <array>
#include <cstddef>

namespace sluice::sql {

namespace {

struct Names {
  std::string_view media_type;
  std::string_view media_type_without_header;
  std::string_view extension;
};

constexpr std::array<Names, 4> names{{
    {"application/json", "application/json", "json"},
    {"application/x-ndjson", "application/x-ndjson", "ndjson"},
    {"text/csv; charset=utf-8; header=present", "text/csv; charset=utf-8; header=absent", "csv"},
    {"application/csj", "application/csj; header=absent", "csj"},
}};

}  // namespace

std::string_view media_type(Format format, Header header) {
  const Names& of = names[static_cast<std::size_t>(format)];
  return header == Header::present ? of.media_type : of.media_type_without_header;
}

std::string_view extension(Format format) { return names[static_cast<std::size_t>(format)].extension; }

std::optional<Format> format_of_extension(std::string_view extension) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i].extension == extension) return static_cast<Format>(i);
  }
  return std::nullopt;
}

}  // namespace sluice::sql
