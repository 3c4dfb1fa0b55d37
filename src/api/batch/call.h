#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/buffer.h"
#include "http/request.h"

// The format of a batch:
//
//   [{"method": "POST", "path": "/films", "body": {"slug": "alien"}, "id": "film"},
//    {"method": "PUT", "path": "/films/${film.slug}/tags", "headers": {"Prefer": "..."}, "body": [...]}]
//
// `${id.a.0.b}` stands for a value of an earlier call's answer. `id` is the id of that call, or its index from 0, and
// the rest is a path into its body. In the path of a call the value is escaped. If a string of the body consists only
// of a reference, the value replaces the whole string and keeps its type. In a longer string the value's text replaces
// the reference. `$${` stands for `${`.
namespace sluice::api::batch {

struct Call {
  http::Method method{};  // get, post, put, patch or delete_
  std::string target;     // path and query, with references
  std::string id;         // empty if it has none
  std::vector<std::pair<std::string, std::string>> fields;
  std::string body;  // the body's JSON text, with references; empty if absent
  std::string text;  // instead of `body` if the Content-Type is not JSON
};

struct CallFault {
  std::string pointer;  // RFC 6901, from the root of the batch
  std::string reason;
};

// Limits for a batch and its calls. A call has the same limits as a separate request.
struct CallLimits {
  std::size_t calls = 100;         // of one batch
  std::size_t target = 8 << 10;    // bytes of a path and its query, after references have been replaced
  std::size_t headers = 16 << 10;  // bytes of the path and all fields
};

// Parses a whole body. Checks everything that can be checked before the calls run: methods, names, ids, fields, and
// references to calls that do not come earlier. `own`: names in lower case. No call may set these header fields,
// nor those of the connection and the credentials.
[[nodiscard]] std::expected<std::vector<Call>, CallFault> parse_calls(std::string_view json, const CallLimits& limits,
                                                                      std::span<const std::string> own = {});

}  // namespace sluice::api::batch
