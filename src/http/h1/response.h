#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/buffer.h"
#include "http/h1/parser.h"
#include "http/request.h"

namespace sluice::http::h1 {

// The interim response that asks a client with "Expect: 100-continue" for its body.
inline constexpr std::string_view continue_response = "HTTP/1.1 100 Continue\r\n\r\n";

// The value of the Date field, "Sun, 06 Nov 1994 08:49:37 GMT", formatted once per second.
class DateCache {
 public:
  static constexpr std::size_t size = 29;
  // `unix_ns` is the time of the wall clock. The view is valid until the next call. Years outside 1970..9999 are
  // clamped.
  [[nodiscard]] std::string_view at(std::int64_t unix_ns) {
    const std::int64_t second = unix_ns / 1'000'000'000;
    if (second != second_) [[unlikely]]
      refresh(second);
    return {text_.data(), text_.size()};
  }

 private:
  void refresh(std::int64_t second);

  std::int64_t second_ = -1;
  std::array<char, size> text_{};
};

// How the body of a response is framed for a client of this version. `size` is the body's size, if known. A response to
// HEAD is framed like the response to GET, but its body is not sent. With until_close the connection closes after the
// body.
[[nodiscard]] BodyFraming frame_body(int status, Version version, std::optional<std::uint64_t> size);

struct ResponseHead {
  enum class Connection : std::uint8_t { keep_alive, close, upgrade };
  int status = 200;
  Version version = Version::http11;  // of the request
  Connection connection = Connection::keep_alive;
  BodyFraming framing{};      // the result of frame_body(); until_close implies Connection::close
  std::string_view date{};    // DateCache::at()
  std::string_view server{};  // empty: no Server field
  std::span<const Field> fields{};
  std::uint32_t trusted = 0;  // one bit for each field: FieldList::trusted()
  // "Date: ...\r\nServer: ...\r\n" followed by `always`, formatted once for many responses. Sent instead of `date`,
  // `server` and `always` unless one of the fields replaces Date or Server.
  std::string_view common{};
  std::string_view always{};  // whole lines of further fields that every response has
};

// Appends the status line and the fields, including the empty line. Content-Length, Transfer-Encoding and Connection
// come only from the other members of `head`; in `fields` they are left out. A field is also left out if its name is
// not a token or its value has a control character other than HTAB (CR, LF, NUL). This prevents response splitting when
// a handler forwards data from a peer. A Date or Server among `fields` replaces ours. Returns the number of invalid
// fields that were left out. A status outside 100 to 999 is sent as 500.
std::size_t append_head(Buffer& out, const ResponseHead& head);

// Appends "name: value" CRLF. If either is invalid, appends nothing and returns false.
bool append_field(Buffer& out, std::string_view name, std::string_view value);

}  // namespace sluice::http::h1
