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

// Why a request is refused: a status and a sentence for the client's eyes. Status 0: it is not.
struct Refusal {
  int status = 0;
  std::string_view detail;

  explicit operator bool() const { return status != 0; }
};

// What a client wants first (RFC 9218, 4).
struct Priority {
  std::uint8_t urgency = 3;
  bool incremental = false;

  friend bool operator==(const Priority&, const Priority&) = default;
};
// The Priority field. What is not understood is passed over.
[[nodiscard]] Priority parse_priority(std::string_view value);

// The last authority of a connection that was found valid: the next request's is the same as a rule.
class KnownAuthority {
 public:
  [[nodiscard]] bool is_valid(std::string_view authority);

 private:
  std::uint8_t size_ = 0;
  std::array<char, 64> text_{};
};

// Whether a field may be in a header or trailer section at all (RFC 9113, 8.2): its name a token in lower case, its
// value without control characters and white space around it, nothing that belongs to a connection.
[[nodiscard]] bool is_allowed_field(std::string_view name, std::string_view value, bool name_is_known);

// What a header section may take. As ServerOptions has them.
struct HeadLimits {
  std::size_t size = 16 * 1024;        // of all fields, decoded, each with its overhead
  std::size_t target_size = 8 * 1024;  // of :path
  std::size_t fields = 128;            // pseudo-fields apart
};

// The header section of one request as HPACK gives it, field by field, and what it comes to (RFC 9113, 8.3). Two kinds
// of mistakes: a malformed request is a stream error; one that is well-formed and that we do not take gets an answer,
// by the rules and limits of HTTP/1.1's parser.
class RequestHead {
 public:
  static constexpr std::size_t max_method_size = 64;
  static constexpr std::size_t field_overhead = 32;  // of each field, in the sum of bytes (RFC 9113, 6.5.2)

  // Bytes are copied to `arena`, as long as they are within the limits. `name_is_known`: it comes from HPACK's static
  // table, so it is right and stays where it is.
  void add(core::Arena& arena, std::string_view name, std::string_view value, bool name_is_known,
           const HeadLimits& limits);
  // After the last field; `ended`: there is no body.
  [[nodiscard]] bool is_malformed(bool ended) const;
  // Then, once. The request's views last as long as the arena.
  [[nodiscard]] Refusal finish(core::Arena& arena, KnownAuthority& known, const HeadLimits& limits, Request& request);
  void reset();

  // What was decoded, beyond the limit too: for the limit of what is decoded at all.
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] std::size_t count() const { return count_; }
  [[nodiscard]] std::optional<std::uint64_t> content_length() const { return content_length_; }
  [[nodiscard]] std::optional<Priority> priority() const { return priority_; }
  // CONNECT to a resource that is to speak another protocol (RFC 8441): what follows is no body.
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
  std::uint8_t pseudo_ = 0;  // of Pseudo
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
