#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "http/fields.h"
#include "http/h1/parser.h"
#include "http/request.h"

namespace sluice::http::client {

struct ResponseLimits {
  std::size_t head_size = 32 * 1024;  // bytes of status line and fields together; at most 65,535
  std::size_t field_count = 256;
};

// The head of one response. The views are valid as long as the received bytes are not moved or freed.
struct ResponseHead {
  int status = 0;  // 100 to 999
  Version version = Version::http11;
  std::span<const Field> fields;  // as received, including hop-by-hop fields
  h1::BodyFraming body;
  std::optional<std::uint64_t> length;  // Content-Length, unless Transfer-Encoding overrides it; without a body, too
  bool keep_alive = false;              // the server accepts another request on this connection
  std::string_view upgrade;             // of a 101: the protocol that the server switches to
};

// Parses the head of one HTTP/1.1 response (RFC 9112) as its bytes arrive. It does no I/O and stores no bytes: each
// call passes all bytes received since the start of the response. The parser examines a line when the line is complete.
//
//   0 <= line_begin <= scanned <= received;   the result depends only on the bytes, not on their split
//
// Refuses everything that another recipient could frame differently: bare CR or LF, obs-fold, white space before a
// colon, different values of Content-Length, a transfer coding other than a single "chunked", Transfer-Encoding in
// HTTP/1.0. A status line may lack its reason phrase, and the space before the phrase. A response to HEAD, and one of
// status 1xx, 204 or 304, has no body, whatever its fields say (RFC 9112, 6.3).
//
// Content-Length may come several times with the same value, because the recipients of a response are not confused by
// that. Transfer-Encoding overrides a Content-Length, and the connection must then be closed (6.3).
//
// An interim response (1xx except 101) counts as one response: the caller handles it and calls reset() for the next
// one.
class ResponseParser {
 public:
  explicit ResponseParser(const ResponseLimits& limits = {});

  // `request`: the method of the request. After any result but need_more, the caller must call reset() first.
  [[nodiscard]] h1::Parsed parse(std::string_view received, Method request);
  void reset();

  // Valid after parse() returned `done`, until reset() or until the received bytes are moved or freed.
  [[nodiscard]] const ResponseHead& head() const { return head_; }
  // Updates the views in head() after the received bytes have moved.
  void relocate(const char* received);

 private:
  // Offsets from the first received byte.
  struct Line {
    std::uint16_t name, name_size, value, value_size;
  };
  enum class Connection : std::uint8_t { unsaid, close, keep_alive };

  struct PlainField {
    std::string_view name;
    std::string_view value;
    std::size_t end = 0;  // of its line
  };

  [[nodiscard]] PlainField find_plain_field(std::string_view seen) const;
  [[nodiscard]] h1::Reason take_status_line(std::string_view line);
  [[nodiscard]] h1::Reason take_field(const char* base, std::string_view line);
  [[nodiscard]] h1::Reason add(const char* base, std::string_view name, std::string_view value);
  [[nodiscard]] h1::Reason take_length(std::string_view value);
  [[nodiscard]] h1::Reason recognise(std::string_view name, std::string_view value);
  [[nodiscard]] h1::Reason finish(Method request);

  ResponseLimits limits_;
  std::size_t line_begin_ = 0;
  std::size_t scanned_ = 0;
  bool has_length_ = false;
  std::uint64_t length_ = 0;
  unsigned chunked_count_ = 0;
  bool has_encoding_ = false;
  Connection connection_ = Connection::unsaid;
  bool upgrades_ = false;      // the Connection field contains "upgrade"
  int upgrade_line_ = -1;      // index into lines_
  std::vector<Line> lines_;    // keeps its capacity
  std::vector<Field> fields_;  // keeps its capacity
  ResponseHead head_;
};

}  // namespace sluice::http::client
