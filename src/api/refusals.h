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

// What answers say of request bodies that cannot be taken (RFC 9457).
namespace sluice::api {

inline constexpr std::size_t most_faults = 100;  // that one answer lists

// 404: the statement has found no row.
[[nodiscard]] http::Response refuse_missing(const http::Request& request);
// Reads the whole of a request's body, which is there, of at most `limit` bytes, which count against what the server
// may hold of bodies `copies` times. An answer is a refusal.
[[nodiscard]] core::Task<std::optional<http::Response>> read_whole(const http::Request& request, std::uint64_t limit,
                                                                   unsigned copies, std::string& into);
// Of a handler that takes no body, where the request has one: 400, unless that is empty or `{}`, as some clients send
// always; then handles the request without it.
[[nodiscard]] core::Task<http::Response> handle_without_body(http::Request& request, http::Handler& handler);
// Whether rows of this shape can be read from a body of this format; nothing: of an unknown one.
[[nodiscard]] bool takes(const Shape& shape, std::optional<BodyFormat> format);
// 415, with what could be sent.
[[nodiscard]] http::Response refuse_type(const Shape& shape);
// Whether the body is longer than `limit` bytes by what its length is said to be.
[[nodiscard]] bool announces_more(const http::Request& request, std::uint64_t limit);
// 413.
[[nodiscard]] http::Response refuse_length();
// 400, to a PUT that has Content-Range: its body would be taken for the whole (RFC 9110, 14.4).
[[nodiscard]] std::optional<http::Response> refuse_part(const http::Request& request);
// The body did not come whole, or there was no memory for it: 413, 408, 503, 400.
[[nodiscard]] http::Response refuse_body(const Error& error);
// 400: it is not what its Content-Type says.
[[nodiscard]] http::Response refuse_unreadable(std::span<const RowFault> faults);
// 400: the body has another number of rows than one.
[[nodiscard]] http::Response refuse_row_count(std::size_t count);
// 422: "errors" says what is wrong in which row.
[[nodiscard]] http::Response refuse_rows(std::span<const RowFault> faults);
// 409: rows that are there, and that the request may not change.
[[nodiscard]] http::Response refuse_outside(std::span<const RowFault> faults);
// The member "errors" of a problem.
[[nodiscard]] std::string errors_member(std::span<const RowFault> faults);

}  // namespace sluice::api
