#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "api/body/row_reader.h"
#include "base/result.h"
#include "core/task.h"
#include "http/request.h"
#include "http/response.h"
#include "http/server.h"

// Problem answers to request bodies that cannot be accepted (RFC 9457).
namespace sluice::api {

inline constexpr std::size_t most_faults = 100;  // listed in one answer

// 404: the statement found no row.
[[nodiscard]] http::Response refuse_missing(const http::Request& request);
// Reads the whole body of a request, at most `limit` bytes. The bytes count `copies` times against the server's memory
// limit for bodies. Returns the refusal if reading fails. Precondition: the request has a body.
[[nodiscard]] core::Task<std::optional<http::Response>> read_whole(const http::Request& request, std::uint64_t limit,
                                                                   unsigned copies, std::string& into);
// Calls a handler that takes no body. Answers 400 if the request's body is neither empty nor `{}`. Some clients always
// send one of these; the handler gets the request without the body.
[[nodiscard]] core::Task<http::Response> handle_without_body(http::Exchange& exchange, http::Handler& handler);
// Whether a body of this format can contain rows of this shape. `format` is empty if it is unknown.
[[nodiscard]] bool takes(const Shape& shape, std::optional<BodyFormat> format);
// 415, with the accepted types. `merges`: a JSON merge patch is one of them.
[[nodiscard]] http::Response refuse_type(http::Method method, const Shape& shape, bool merges = false);
// Whether the announced length of the body exceeds `limit` bytes.
[[nodiscard]] bool announces_more(const http::Request& request, std::uint64_t limit);
// 413.
[[nodiscard]] http::Response refuse_length();
// 400 for a PUT with Content-Range, because its body would be taken for the whole content (RFC 9110, 14.4).
[[nodiscard]] std::optional<http::Response> refuse_part(const http::Request& request);
// 413, 408, 503 or 400: the body could not be read to its end.
[[nodiscard]] http::Response refuse_body(const Error& error);
// 400: the body does not parse as its Content-Type.
[[nodiscard]] http::Response refuse_unreadable(std::span<const RowFault> faults);
// 400: the body does not have exactly one row.
[[nodiscard]] http::Response refuse_row_count(std::size_t count);
// 422: "errors" lists the faults of each row.
[[nodiscard]] http::Response refuse_rows(std::span<const RowFault> faults);
// 409: the body has rows that exist but that the request may not change.
[[nodiscard]] http::Response refuse_outside(std::span<const RowFault> faults);
// 503 with Retry-After: too many passwords wait for their hash.
[[nodiscard]] http::Response refuse_password();
// The member "errors" of a problem.
[[nodiscard]] std::string errors_member(std::span<const RowFault> faults);

}  // namespace sluice::api
