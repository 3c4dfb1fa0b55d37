#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "http/request.h"

namespace sluice::api {

// How the rows of a request body are written; json, ndjson, csv and csj are what sql::Format writes.
//
//   json    one object, or an array of objects
//   ndjson  one object per line
//   csv     RFC 4180 with a header line; an empty field is null, "" an empty string, as PostgreSQL's COPY reads it
//   csj     a line of the names, then a line per row: JSON values between commas, without brackets
//   form    name=value&..., one row
enum class BodyFormat : std::uint8_t { json, ndjson, csv, csj, form };

// The format that a Content-Type names (RFC 9110, 8.3); types, names of parameters and charsets compare without case.
// None (which is answered with 415): another type, a charset other than UTF-8 (or US-ASCII, which it holds),
// `header=absent`, as rows without their names are nobody's, or a field that does not parse.
[[nodiscard]] std::optional<BodyFormat> body_format(std::string_view content_type);

// That of a request's body. None as well where Content-Type comes more than once, for another reader might take another
// of them, or where the body has a Content-Encoding, which nobody here undoes.
[[nodiscard]] std::optional<BodyFormat> body_format(const http::Request& request);

// The types that body_format() takes, as Accept-Post and Accept-Patch list them.
[[nodiscard]] std::string_view accepted_types();

}  // namespace sluice::api
