#pragma once

#include <expected>
#include <map>
#include <string>
#include <string_view>

#include "core/task.h"
#include "http/request.h"
#include "http/response.h"

namespace sluice::login {

// The fields of a body, as texts.
using Fields = std::map<std::string, std::string, std::less<>>;

inline constexpr std::size_t longest_body = 16 << 10;     // bytes
inline constexpr std::size_t longest_password = 1 << 10;  // likewise

// Reads the body: a JSON object of texts, numbers and truth values, or a form. Without a body there are no fields. The
// error is the refusal.
[[nodiscard]] core::Task<std::expected<Fields, http::Response>> read_fields(const http::Request& request);
// The same for a body that has been read. `type`: the Content-Type.
[[nodiscard]] std::expected<Fields, http::Response> parse_fields(std::string_view type, std::string_view body);

// As JSON, and back. Precondition of the second: the text is from the first.
[[nodiscard]] std::string json_of(const Fields& fields);
[[nodiscard]] Fields fields_of(std::string_view json);

// The text as a JSON string, with its quotes.
[[nodiscard]] std::string json_string(std::string_view text);

}  // namespace sluice::login
