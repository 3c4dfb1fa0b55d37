#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/buffer.h"
#include "http/request.h"

namespace sluice::http::h1 {

// Why a request or a response is refused. A server answers with status_of() and closes: where the next request begins
// is not known.
enum class Reason : std::uint8_t {
  none,
  bad_method,
  method_too_long,
  bad_target,
  target_too_long,
  bad_escape,
  nul_in_path,
  path_above_root,
  bad_version,
  unsupported_version,
  bad_status,
  too_many_empty_lines,
  bare_cr,
  bare_lf,
  obsolete_folding,
  bad_field_name,
  space_before_colon,
  bad_field_value,
  head_too_large,
  too_many_fields,
  missing_host,
  duplicate_host,
  bad_host,
  bad_content_length,
  duplicate_content_length,
  length_and_encoding,
  bad_transfer_encoding,
  unsupported_transfer_encoding,
  transfer_encoding_in_http10,
  unsupported_expectation,
  https_without_tls,
  bad_chunk_size,
  bad_chunk_end,
  chunk_extension_too_long,
  bad_trailer,
  trailers_too_large,
};

[[nodiscard]] int status_of(Reason reason);
// A short sentence for the client's eyes, for the problem's `detail`.
[[nodiscard]] std::string_view describe(Reason reason);

// How long a body is. Requests have the first three; until_close is an answer's to an HTTP/1.0 client.
struct BodyFraming {
  enum class Kind : std::uint8_t { none, length, chunked, until_close };
  Kind kind = Kind::none;
  std::uint64_t length = 0;  // of Kind::length; at most 2^63 - 1, which stands for all that is longer

  friend bool operator==(const BodyFraming&, const BodyFraming&) = default;
};

// The value of a Content-Length field; nothing: it is not a number. A longer one than fits is INT64_MAX (RFC
// 9110, 8.6).
[[nodiscard]] std::optional<std::uint64_t> parse_content_length(std::string_view value);

struct RequestLimits {
  std::size_t head_size = 16 * 1024;   // bytes of request line and fields together: 431. At most 65,535.
  std::size_t target_size = 8 * 1024;  // bytes of the request target: 414
  std::size_t field_count = 128;       // 431
};

// What one call of parse() came to.
struct Parsed {
  enum class State : std::uint8_t { need_more, done, refused };
  State state = State::need_more;
  Reason reason = Reason::none;  // when refused
  std::uint16_t head_size = 0;   // when done: bytes up to and with the empty line; the body begins there

  friend bool operator==(const Parsed&, const Parsed&) = default;
};

// The head of one request (RFC 9112), parsed as its bytes come in. It does no I/O and keeps no bytes: it is shown all
// that has been received from the request's first byte on, looks only at what is new, and keeps offsets, because those
// bytes may move between calls.
//
//   0 <= scanned <= received;   scanned only grows;   what a call decides depends on the bytes alone, not on the calls
//
// Stricter than many: bare CR or LF, obs-fold, space around a field name, a missing, doubled or invalid Host,
// Content-Length beside Transfer-Encoding or twice (even when equal) are refused. Laxer in two points: two empty lines
// before the request line pass (RFC 9112, 2.2), and a target may hold any visible ASCII but '#', and in its path
// but '\', '"', '<' and '>', since browsers send '|', '[' or '^' as they are.
//
// Request::path is decoded: split at '/', escapes resolved in each segment, then "." and ".." segments removed, runs of
// '/' made one. An encoded slash (%2F) is data: it separates nothing, and Request::segments has a NUL in its place. An
// encoded NUL and a ".." above the root are refused. The path is "*" for `OPTIONS *` and empty for CONNECT.
class RequestParser {
 public:
  static constexpr std::size_t max_method_size = 64;
  static constexpr int max_empty_lines = 2;

  // `request`: where what has been parsed is found; it outlives the parser.
  explicit RequestParser(Request& request, const RequestLimits& limits = {});
  RequestParser(const RequestParser&) = delete;
  RequestParser& operator=(const RequestParser&) = delete;

  // `received` begins with the request's first byte and holds at least what the call before was shown. After anything
  // but need_more, reset() comes first.
  [[nodiscard]] Parsed parse(std::string_view received);

  // Whether the connection has TLS: an "https" target is refused where it has not (RFC 9110, 7.4).
  void set_secure(bool secure) { secure_ = secure; }

  // Forgets the request and everything that request() showed; ready for the next one.
  void reset();

  // Has the received bytes' address changed since parse() was done, this points request()'s views to where they are
  // now.
  void relocate(const char* received);

  // The rest is valid once parse() was done, until reset() or until the received bytes move or go. `body`, `peer` and
  // `secure` are the connection's to fill in.
  [[nodiscard]] Request& request() { return request_; }
  [[nodiscard]] BodyFraming body() const { return body_; }
  // Whether the client would go on with this connection: Connection, and the version's default.
  [[nodiscard]] bool keep_alive() const { return keep_alive_; }
  // The client waits for "100 Continue" before it sends its body.
  [[nodiscard]] bool expects_continue() const { return expects_continue_; }
  // The protocols that the client would change to, as sent; empty unless Connection names "upgrade" too.
  [[nodiscard]] std::string_view upgrade() const { return upgrade_; }

  // At any time since the request's first byte: its method, as far as it has come; else Method::other.
  [[nodiscard]] Method method() const { return at_.method_known; }
  // Whether bytes of a request have been seen: an end of stream is then an error, else a goodbye.
  [[nodiscard]] bool in_request() const { return phase_ != Phase::start; }

 private:
  enum class Phase : std::uint8_t { start, method, target, version, line, name, value, complete };
  // `scratch_twice`: with encoded slashes, the segments and then the path, which is as long.
  enum class PathIn : std::uint8_t { received, scratch, scratch_twice, literal };

  // Offsets from the first received byte; a head has at most 65,535 bytes.
  struct Span {
    std::uint16_t begin = 0;
    std::uint16_t size = 0;
    [[nodiscard]] std::string_view in(const char* base) const { return {base + begin, size}; }
  };
  static Span span_of(const char* base, std::string_view text) {
    return {static_cast<std::uint16_t>(text.data() - base), static_cast<std::uint16_t>(text.size())};
  }
  struct Line {
    Span name;
    Span value;
  };

  // What the fields have said so far.
  enum Seen : std::uint16_t {
    host = 1 << 0,
    content_length = 1 << 1,
    transfer_encoding = 1 << 2,
    last_is_chunked = 1 << 3,
    other_coding = 1 << 4,
    after_chunked = 1 << 5,
    close = 1 << 6,
    keep_alive_option = 1 << 7,
    upgrade_option = 1 << 8,
    upgrade_field = 1 << 9,
    continue_expected = 1 << 10,
  };

  [[nodiscard]] Parsed refuse(Reason reason);
  [[nodiscard]] Parsed pause(Phase phase, std::uint16_t scanned, const Line* line, bool at_limit);
  [[nodiscard]] static Reason judge_line_end(const char* p, const char* end, Reason otherwise);
  [[nodiscard]] bool has_seen(Seen what) const { return (at_.seen & what) != 0; }
  void see(Seen what) { at_.seen = static_cast<std::uint16_t>(at_.seen | what); }
  [[nodiscard]] Reason scan_version(const char*& p, const char* end);
  [[nodiscard]] Reason finish_target(const char* base);
  [[nodiscard]] Reason finish_unusual_target(const char* base);
  [[nodiscard]] Reason normalise_path(std::string_view raw);
  [[nodiscard]] Reason recognise(const char* base, const char* name, std::size_t name_size, std::string_view value);
  [[nodiscard]] Reason add_host(const char* base, std::string_view value);
  [[nodiscard]] Reason check_host(std::string_view value);
  [[nodiscard]] Reason add_transfer_encoding(std::string_view value);
  void add_connection(std::string_view value);
  [[nodiscard]] Reason finish_head();
  [[nodiscard]] Reason finish_unusual_head();
  void form_views(const char* base);

  RequestLimits limits_;

  // What the start of a request sets back; one block, so that reset() is a few stores.
  struct Progress {
    std::uint16_t scanned = 0;
    std::uint16_t line_count = 0;
    std::uint16_t query_begin = 0;  // of the first byte behind '?'; 0: none has come
    Span method;
    Span target;
    Span path;
    Span authority;
    Span upgrade;
    bool unusual_target = false;  // the path is not its own decoded form
    std::uint16_t seen = 0;       // of Seen
    std::uint8_t empty_lines = 0;
    PathIn path_in = PathIn::received;
    Method method_known = Method::other;
    Version version = Version::http11;
    std::uint64_t length = 0;
  };
  Phase phase_ = Phase::start;
  bool secure_ = false;
  bool keep_alive_ = false;
  bool expects_continue_ = false;
  Progress at_;
  BodyFraming body_;
  std::string_view literal_path_;
  std::string_view upgrade_;
  Request& request_;
  std::uint8_t known_host_size_ = 0;  // the last Host that was found valid, also of the request before
  std::array<char, 64> known_host_{};
  Buffer scratch_;           // the decoded path, where it differs from the received one; kept for the next
  std::vector<Line> lines_;  // limits_.field_count long, as fields_
  std::vector<Field> fields_;
};

}  // namespace sluice::http::h1
