#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/declare.h"

namespace sluice::sql {

// How rows are written.
//
//   json    [{"id":1,"name":"a"},
//           {"id":2,"name":null}]
//   ndjson  one object per line
//   csv     a header line, then rows, byte for byte PostgreSQL's COPY ... (FORMAT csv, HEADER)
//   csj     a line of column names, then one line per row: JSON values separated by commas, without brackets
enum class Format : std::uint8_t { json, ndjson, csv, csj };

inline NameOf<Format> names_of(Format) {
  return {{"json", Format::json}, {"ndjson", Format::ndjson}, {"csv", Format::csv}, {"csj", Format::csj}};
}

class FormatSet {
 public:
  constexpr FormatSet() = default;  // all
  // An empty list means all formats.
  explicit constexpr FormatSet(std::span<const Format> formats) {
    if (!formats.empty()) bits_ = 0;
    for (const Format format : formats) bits_ |= bit(format);
  }
  [[nodiscard]] constexpr bool has(Format format) const { return (bits_ & bit(format)) != 0; }

 private:
  static constexpr std::uint8_t bit(Format format) {
    return static_cast<std::uint8_t>(1U << static_cast<unsigned>(format));
  }
  std::uint8_t bits_ = 0x0F;
};

// Whether csv and csj begin with the line of column names; the other formats have none.
enum class Header : std::uint8_t { present, absent };

[[nodiscard]] std::string_view media_type(Format format, Header header = Header::present);
// The path's suffix that selects the format, without the dot.
[[nodiscard]] std::string_view extension(Format format);
[[nodiscard]] std::optional<Format> format_of_extension(std::string_view extension);

}  // namespace sluice::sql
