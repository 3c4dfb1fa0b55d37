#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/arena.h"
#include "http/request.h"

namespace sluice::http::h2 {

// Why a request is refused: a status and a sentence for the client. Status 0: it is not refused.
struct Refusal {
  int status = 0;
  std::string_view detail;

  explicit operator bool() const { return status != 0; }
};

// The priority of a request (RFC 9218, 4).
struct Priority {
  std::uint8_t urgency = 3;
  bool incremental = false;

  friend bool operator==(const Priority&, const Priority&) = default;
};
// Parses a Priority field. Unknown parts are ignored.
[[nodiscard]] Priority parse_priority(std::string_view value);

// Caches the last valid authority of a connection, because the next request usually has the same one.
class KnownAuthority {
 public:
  [[nodiscard]] bool is_valid(std::string_view authority);

 private:
  std::uint8_t size_ = 0;
  std::array<char, 64> text_{};
};

// Whether a field is allowed in a header or trailer section (RFC 9113, 8.2): its name is a lower-case token, its value
// has no control characters and no surrounding white space, and it is not a connection-specific field.
[[nodiscard]] bool is_allowed_field(std::string_view name, std::string_view value, bool name_is_known);

// Limits of a header section, from ServerOptions.
struct HeadLimits {
  std::size_t size = 16 * 1024;        // decoded size of all fields, each with its overhead
  std::size_t target_size = 8 * 1024;  // of :path
  std::size_t fields = 128;            // without pseudo-fields
};

// Builds a request from the decoded fields of its header section (RFC 9113, 8.3). There are two kinds of errors. A
// malformed request is a stream error. A well-formed request that the server does not accept gets an error response, by
// the same rules and limits as in the HTTP/1.1 parser.
class RequestHead {
 public:
  static constexpr std::size_t max_method_size = 64;
  static constexpr std::size_t field_overhead = 32;  // added for each field to the size (RFC 9113, 6.5.2)

  // Copies the bytes to `arena`, as long as they are within the limits. `name_is_known`: the name is from HPACK's
  // static table, so it is valid and need not be copied.
  void add(core::Arena& arena, std::string_view name, std::string_view value, bool name_is_known,
           const HeadLimits& limits);
  // Called after the last field. `ended`: the request has no body.
  [[nodiscard]] bool is_malformed(bool ended) const;
  // Called once, after is_malformed(). The request's views are valid as long as the arena.
  [[nodiscard]] Refusal finish(core::Arena& arena, KnownAuthority& known, const HeadLimits& limits, Request& request);
  void reset();

  // Number of decoded bytes, including those beyond the limits.
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] std::size_t count() const { return count_; }
  [[nodiscard]] std::optional<std::uint64_t> content_length() const { return content_length_; }
  [[nodiscard]] std::optional<Priority> priority() const { return priority_; }
  // The client waits for 100 Continue before it sends the body.
  [[nodiscard]] bool expects_continue() const { return expects_continue_; }
  // Whether the request is an extended CONNECT for another protocol (RFC 8441). The DATA that follows is then not a
  // body.
  [[nodiscard]] bool is_extended_connect() const { return (pseudo_ & protocol) != 0; }

 private:
  enum Pseudo : std::uint8_t { method = 1, scheme = 2, path = 4, authority = 8, protocol = 16 };

  void add_pseudo(core::Arena& arena, std::string_view name, std::string_view value);
  void recognise(std::string_view name, std::string_view value);
  void join_cookies(core::Arena& arena);
  [[nodiscard]] Refusal finish_target(core::Arena& arena, const HeadLimits& limits, Request& request);

  std::size_t bytes_ = 0;
  std::size_t count_ = 0;
  bool malformed_ = false;
  bool too_large_ = false;
  bool expects_continue_ = false;
  bool has_other_expectation_ = false;
  std::uint8_t pseudo_ = 0;  // bits of Pseudo
  std::uint8_t cookies_ = 0;
  std::uint8_t hosts_ = 0;
  std::optional<Priority> priority_;
  std::optional<std::uint64_t> content_length_;
  std::string_view method_;
  std::string_view scheme_;
  std::string_view path_;
  std::string_view authority_;
  std::string_view host_;
  std::string_view protocol_;
  std::vector<Field> fields_;
};

}  // namespace sluice::http::h2
