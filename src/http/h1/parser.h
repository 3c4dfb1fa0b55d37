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

// Why a request or a response is refused. A server answers with status_of() and closes the connection, because it
// cannot know where the next request begins.
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
  too_many_interim_responses,
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
// A short sentence for the client, used as `detail` of the problem response.
[[nodiscard]] std::string_view describe(Reason reason);

// How the length of a body is determined. Requests use only the first three kinds; responses to HTTP/1.0 clients may
// use until_close.
struct BodyFraming {
  enum class Kind : std::uint8_t { none, length, chunked, until_close };
  Kind kind = Kind::none;
  std::uint64_t length = 0;  // for Kind::length; at most 2^63 - 1, which stands for every larger value

  friend bool operator==(const BodyFraming&, const BodyFraming&) = default;
};

// Parses the value of a Content-Length field. Returns nothing if it is not a number, and INT64_MAX if it is too large
// (RFC 9110, 8.6).
[[nodiscard]] std::optional<std::uint64_t> parse_content_length(std::string_view value);

struct RequestLimits {
  std::size_t head_size = 16 * 1024;   // bytes of request line and fields together, at most 65,535; beyond it: 431
  std::size_t target_size = 8 * 1024;  // bytes of the request target; beyond it: 414
  std::size_t field_count = 128;       // beyond it: 431
};

// The result of one call of parse().
struct Parsed {
  enum class State : std::uint8_t { need_more, done, refused };
  State state = State::need_more;
  Reason reason = Reason::none;  // when refused
  std::uint16_t head_size = 0;   // when done: bytes up to the end of the empty line, where the body begins

  friend bool operator==(const Parsed&, const Parsed&) = default;
};

// Parses the head of one request (RFC 9112) as its bytes arrive. It does no I/O and stores no bytes: each call passes
// all bytes received since the start of the request, and the parser examines only the new ones. It stores offsets,
// because the bytes may move between calls.
//
//   0 <= scanned <= received;   scanned only grows;   the result depends only on the bytes, not on their split
//
// The parser is stricter than many others: it refuses bare CR or LF, obs-fold, white space around a field name, a
// missing, repeated or invalid Host, and Content-Length beside Transfer-Encoding or twice (even when equal). It is
// laxer in two points. It accepts up to two empty lines before the request line (RFC 9112, 2.2). It accepts any visible
// ASCII character in a target except '#', and in the path also except '\', '"', '<' and '>', because browsers send '|',
// '[' and '^' unescaped.
//
// Request::path is decoded: the parser splits it at '/', decodes the escapes in each segment, then removes "." and ".."
// segments and merges runs of '/'. An encoded slash (%2F) is data and not a separator; Request::segments has a NUL in
// its place. An encoded NUL and a ".." above the root are refused. The path is "*" for `OPTIONS *` and empty for
// CONNECT.
class RequestParser {
 public:
  static constexpr std::size_t max_method_size = 64;
  static constexpr int max_empty_lines = 2;

  // `request` receives the parsed request and outlives the parser.
  explicit RequestParser(Request& request, const RequestLimits& limits = {});
  RequestParser(const RequestParser&) = delete;
  RequestParser& operator=(const RequestParser&) = delete;

  // `received` begins with the request's first byte and contains at least the bytes of the previous call. After any
  // result but need_more, the caller must call reset() first.
  [[nodiscard]] Parsed parse(std::string_view received);

  // Whether the connection uses TLS. Without TLS an "https" target is refused (RFC 9110, 7.4).
  void set_secure(bool secure) { secure_ = secure; }

  // Clears the request, so that the next one can be parsed.
  void reset();

  // Updates the views in request() after the received bytes have moved.
  void relocate(const char* received);

  // The following are valid after parse() returned `done`, until reset() or until the received bytes are moved or
  // freed. The connection fills in `body`, `peer` and `secure`.
  [[nodiscard]] Request& request() { return request_; }
  [[nodiscard]] BodyFraming body() const { return body_; }
  // Whether the client allows another request on this connection, by its Connection field or the default of its
  // version.
  [[nodiscard]] bool keep_alive() const { return keep_alive_; }
  // The client waits for "100 Continue" before it sends its body.
  [[nodiscard]] bool expects_continue() const { return expects_continue_; }
  // The protocols that the client asks to switch to, as sent. Empty unless the Connection field contains "upgrade".
  [[nodiscard]] std::string_view upgrade() const { return upgrade_; }

  // The method, available as soon as it has been received; Method::other before. Also valid before parse() is done.
  [[nodiscard]] Method method() const { return at_.method_known; }
  // Whether a request has begun. The end of the stream is then an error; otherwise it is an orderly close.
  [[nodiscard]] bool in_request() const { return phase_ != Phase::start; }

 private:
  enum class Phase : std::uint8_t { start, method, target, version, line, name, value, complete };
  // `scratch_twice`: the path has encoded slashes; the scratch buffer holds the segments and then the path, both of the
  // same size.
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

  // The fields that were found so far.
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

  // The state that reset() clears. It is one struct, so that reset() takes only a few stores.
  struct Progress {
    std::uint16_t scanned = 0;
    std::uint16_t line_count = 0;
    std::uint16_t query_begin = 0;  // offset of the first byte after '?'; 0: no '?' received
    Span method;
    Span target;
    Span path;
    Span authority;
    Span upgrade;
    bool unusual_target = false;  // decoding changes the path
    std::uint16_t seen = 0;       // bits of Seen
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
  std::uint8_t known_host_size_ = 0;  // the last valid Host, possibly from an earlier request
  std::array<char, 64> known_host_{};
  Buffer scratch_;           // the decoded path, if it differs from the received one; reused by the next request
  std::vector<Line> lines_;  // limits_.field_count long, like fields_
  std::vector<Field> fields_;
};

}  // namespace sluice::http::h1
