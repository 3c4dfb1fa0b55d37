#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace sluice::sql {

// How rows are written.
//
//   json    [{"id":1,"name":"a"},
//           {"id":2,"name":null}]
//   ndjson  one object per line
//   csv     a header line, then rows, byte for byte PostgreSQL's COPY ... (FORMAT csv, HEADER)
//   csj     a line of the column names, then a line per row: JSON values between commas, without brackets
enum class Format : std::uint8_t { json, ndjson, csv, csj };

// Whether csv and csj begin with the line of the columns' names; the others have none.
enum class Header : std::uint8_t { present, absent };

// The Content-Type of an answer.
[[nodiscard]] std::string_view media_type(Format format, Header header = Header::present);
// The end of a path that asks for the format, without the dot.
[[nodiscard]] std::string_view extension(Format format);
[[nodiscard]] std::optional<Format> format_of_extension(std::string_view extension);

}  // namespace sluice::sql
