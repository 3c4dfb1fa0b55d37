#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/arena.h"
#include "http/message.h"

namespace sluice::http::h2 {

// Why a request is refused: a status and a sentence for the client's eyes. Status 0: it is not.
struct Refusal {
  int status = 0;
  std::string_view detail;

  explicit operator bool() const { return status != 0; }
};

// The header section of one request as HPACK gives it, field by field, and what it comes to (RFC 9113, 8.3).
//
// nghttp2 has judged before: names are tokens in lower case, values have no control characters, pseudo-header fields
// are known, single and in front, connection-specific fields do not come, Content-Length is a number. Here is what it
// leaves to us, in the terms of HTTP/1.1's parser: limits, the target, the authority, cookies.
class RequestHead {
 public:
  static constexpr std::size_t max_fields = 128;
  static constexpr std::size_t max_method_size = 64;
  static constexpr std::size_t max_target_size = 8 * 1024;
  static constexpr std::size_t field_overhead = 32;  // of each field, in the sum of bytes (RFC 9113, 6.5.2)

  // Bytes are copied to `arena`, as long as they are within the limit.
  void add(core::Arena& arena, std::string_view name, std::string_view value, std::size_t header_limit);
  // Once, after the last field. The request's views last as long as the arena.
  [[nodiscard]] Refusal finish(core::Arena& arena, Request& request);
  void reset();

  [[nodiscard]] bool too_large() const { return too_large_; }
  // What was decoded, beyond the limit too: for the limit of what is decoded at all.
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] std::size_t count() const { return count_; }
  [[nodiscard]] std::optional<std::uint64_t> content_length() const { return content_length_; }
  [[nodiscard]] bool has_priority() const { return has_priority_; }

 private:
  void join_cookies(core::Arena& arena);
  [[nodiscard]] Refusal finish_target(core::Arena& arena, Request& request);

  std::size_t bytes_ = 0;
  std::size_t count_ = 0;
  bool too_large_ = false;
  bool has_priority_ = false;
  bool has_protocol_ = false;
  std::uint8_t cookies_ = 0;
  std::uint8_t hosts_ = 0;
  std::optional<std::uint64_t> content_length_;
  std::string_view method_;
  std::string_view scheme_;
  std::string_view path_;
  std::string_view authority_;
  std::string_view host_;
  std::vector<Field> fields_;
};

}  // namespace sluice::http::h2
