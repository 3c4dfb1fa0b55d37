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

// A batch as it is written:
//
//   [{"method": "POST", "path": "/films", "body": {"slug": "alien"}, "id": "film"},
//    {"method": "PUT", "path": "/films/${film.slug}/tags", "headers": {"Prefer": "..."}, "body": [...]}]
//
// `${id.a.0.b}` stands for a value of an earlier call's answer: `id` is what that call names itself, or its index from
// 0, and what follows goes into its body. In the path it is escaped; a string of the body that is nothing else becomes
// the value itself; within a longer one the value's text takes its place. `$${` stands for `${`.
namespace sluice::api::batch {

struct Call {
  http::Method method{};  // get, post, put, patch or delete_
  std::string target;     // path and query, with references
  std::string id;         // empty: it has none
  std::vector<std::pair<std::string, std::string>> fields;
  std::string body;  // its own JSON text, with references; empty: none
  std::string text;  // in place of it, where the Content-Type is not JSON
};

struct CallFault {
  std::string pointer;  // RFC 6901, into the batch
  std::string reason;
};

// What a call may be, as if it had come alone.
struct CallLimits {
  std::size_t calls = 100;         // of one batch
  std::size_t target = 8 << 10;    // bytes of a path and its query, with what its references stand for
  std::size_t headers = 16 << 10;  // bytes of the path and all fields
};

// `json` is a whole body. All that can be known without calling is checked: methods, names, ids, fields, references to
// what does not come earlier. `own`: fields in lower case that are the batch's own and no call sets, beside those of
// its connection and its credentials.
[[nodiscard]] std::expected<std::vector<Call>, CallFault> parse_calls(std::string_view json, const CallLimits& limits,
                                                                      std::span<const std::string> own = {});

}  // namespace sluice::api::batch
