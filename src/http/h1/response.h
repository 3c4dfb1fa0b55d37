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

// What goes out before the final answer, when the body of a request that expects it is wanted.
inline constexpr std::string_view continue_response = "HTTP/1.1 100 Continue\r\n\r\n";

// The time of day as every answer carries it, "Sun, 06 Nov 1994 08:49:37 GMT", made anew once a second.
class DateCache {
 public:
  static constexpr std::size_t size = 29;
  // `unix_ns` is a wall clock's. The view lasts until the next call. Years outside 1970..9999 are shown as their
  // nearest.
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

// How the body of an answer is to be framed for a client of this version; `size` where it is known. An answer to HEAD
// is framed as the one to GET would be, and its body is not sent. With until_close the connection ends with the body.
[[nodiscard]] BodyFraming frame_body(int status, Version version, std::optional<std::uint64_t> size);

struct ResponseHead {
  enum class Connection : std::uint8_t { keep_alive, close, upgrade };
  int status = 200;
  Version version = Version::http11;  // the request's
  Connection connection = Connection::keep_alive;
  BodyFraming framing{};      // as frame_body() has it; until_close implies Connection::close
  std::string_view date{};    // DateCache::at()
  std::string_view server{};  // empty: no Server field
  std::span<const Field> fields{};
  std::uint32_t trusted = 0;  // a bit a field: FieldList::trusted()
  // "Date: ...\r\nServer: ...\r\n" and `always`, written once for many answers: goes out instead of `date`, `server`
  // and `always` where no field replaces the first two.
  std::string_view common{};
  std::string_view always{};  // whole lines: what every answer has besides
};

// Appends the status line and the fields, up to and with the empty line. Content-Length, Transfer-Encoding and
// Connection come from `head` alone: in `fields` they are left out. So is a field whose name is no token or whose value
// has a control character but HTAB (CR, LF, NUL): a handler that passes on what a peer sent cannot be made to split the
// answer. A Date or Server among `fields` replaces ours. Returns how many fields were left out as not valid. A status
// that is no three-digit final or interim one is sent as 500.
std::size_t append_head(Buffer& out, const ResponseHead& head);

// Appends "name: value" CRLF, or nothing and returns false when either is not valid.
bool append_field(Buffer& out, std::string_view name, std::string_view value);

}  // namespace sluice::http::h1
