#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "http/request.h"

namespace sluice::api {

// The formats of rows in a request body. json, ndjson, csv and csj are also formats of sql::Format.
//
//   json    one object, or an array of objects
//   ndjson  one object per line
//   csv     RFC 4180 with a header line; an empty field is null, "" an empty string, as PostgreSQL's COPY reads it
//   csj     a line of the names, then a line per row: JSON values between commas, without brackets
//   form    name=value&..., one row
//   merge_patch  as json; RFC 7396, for a PATCH of a table
enum class BodyFormat : std::uint8_t { json, ndjson, csv, csj, form, merge_patch };

// The format of a Content-Type (RFC 9110, 8.3). Types, names of parameters and charsets are case-insensitive. Returns
// nullopt, which leads to a 415, for another type, for a charset other than UTF-8 or its subset US-ASCII, for
// `header=absent`, because columns need their names, and for a field that does not parse.
[[nodiscard]] std::optional<BodyFormat> body_format(std::string_view content_type);

// The format of a request's body. Returns nullopt also if Content-Type occurs more than once, because readers might
// disagree on which one applies, and if the body has a Content-Encoding, which is not supported.
[[nodiscard]] std::optional<BodyFormat> body_format(const http::Request& request);

// The types that body_format() accepts everywhere, so all but merge_patch, as a value for Accept-Post.
[[nodiscard]] std::string_view accepted_types();

}  // namespace sluice::api
