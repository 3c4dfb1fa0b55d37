#include "http/h1/response.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstring>

#include "base/copy.h"
#include "http/h1/scan.h"
#include "http/response.h"

namespace sluice::http::h1 {

namespace {

constexpr std::string_view version_text = "HTTP/1.1 ";

// Prebuilt lines for common statuses; empty for others.
std::string_view prebuilt_status_line(int status) {
  switch (status) {
    case 200:
      return "HTTP/1.1 200 OK\r\n";
    case 201:
      return "HTTP/1.1 201 Created\r\n";
    case 204:
      return "HTTP/1.1 204 No Content\r\n";
    case 206:
      return "HTTP/1.1 206 Partial Content\r\n";
    case 301:
      return "HTTP/1.1 301 Moved Permanently\r\n";
    case 302:
      return "HTTP/1.1 302 Found\r\n";
    case 304:
      return "HTTP/1.1 304 Not Modified\r\n";
    case 400:
      return "HTTP/1.1 400 Bad Request\r\n";
    case 401:
      return "HTTP/1.1 401 Unauthorized\r\n";
    case 403:
      return "HTTP/1.1 403 Forbidden\r\n";
    case 404:
      return "HTTP/1.1 404 Not Found\r\n";
    case 429:
      return "HTTP/1.1 429 Too Many Requests\r\n";
    case 500:
      return "HTTP/1.1 500 Internal Server Error\r\n";
    case 503:
      return "HTTP/1.1 503 Service Unavailable\r\n";
    default:
      return {};
  }
}

char* put(char* at, std::string_view text) { return copy_short(at, text); }

bool is_valid(std::string_view name, std::string_view value) {
  const char* const end = value.data() + value.size();
  return is_token(name) && find_first<EndsValue>(value.data(), value.data(), end) == end;
}

char* put_field(char* at, std::string_view name, std::string_view value) {
  at = put(at, name);
  at = put(at, ": ");
  at = put(at, value);
  return put(at, "\r\n");
}

// Fields that the connection writes itself.
bool is_framing(std::string_view name) {
  switch (name.size()) {
    case 10:
      return same_name(name, "connection");
    case 14:
      return same_name(name, "content-length");
    case 17:
      return same_name(name, "transfer-encoding");
    default:
      return false;
  }
}

}  // namespace

void DateCache::refresh(std::int64_t second) {
  using namespace std::chrono;
  static constexpr std::string_view days[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static constexpr std::string_view months[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  second_ = second;
  const std::int64_t shown = std::clamp<std::int64_t>(second, 0, 253'402'300'799);
  const sys_days day{std::chrono::days(shown / 86'400)};
  const year_month_day date(day);
  const int rest = static_cast<int>(shown % 86'400);
  const auto two_digits = [](char* at, unsigned value) {
    *at++ = static_cast<char>('0' + value / 10);
    *at++ = static_cast<char>('0' + value % 10);
    return at;
  };
  const auto year = static_cast<unsigned>(static_cast<int>(date.year()));
  char* at = text_.data();
  at = put(at, days[weekday(day).c_encoding()]);
  at = put(at, ", ");
  at = two_digits(at, static_cast<unsigned>(date.day()));
  *at++ = ' ';
  at = put(at, months[static_cast<unsigned>(date.month()) - 1]);
  *at++ = ' ';
  at = two_digits(at, year / 100);
  at = two_digits(at, year % 100);
  *at++ = ' ';
  at = two_digits(at, static_cast<unsigned>(rest / 3600));
  *at++ = ':';
  at = two_digits(at, static_cast<unsigned>(rest / 60 % 60));
  *at++ = ':';
  at = two_digits(at, static_cast<unsigned>(rest % 60));
  put(at, " GMT");
}

BodyFraming frame_body(int status, Version version, std::optional<std::uint64_t> size) {
  using Kind = BodyFraming::Kind;
  if (has_no_body(status)) return {};
  if (size) return {Kind::length, *size};
  return {version == Version::http10 ? Kind::until_close : Kind::chunked, 0};
}

std::size_t append_head(Buffer& out, const ResponseHead& head) {
  const int status = head.status >= 100 && head.status <= 999 ? head.status : 500;

  // Computes an upper bound of the size first, then writes without further checks.
  std::size_t bound = 256 + head.date.size() + head.server.size() + head.common.size() + head.always.size();
  for (const Field& field : head.fields) bound += field.name.size() + field.value.size() + 4;
  char* const begin = out.reserve(bound);
  char* at = begin;

  if (const std::string_view line = prebuilt_status_line(status); !line.empty()) {
    at = put(at, line);
  } else {
    at = put(at, version_text);
    at = std::to_chars(at, at + 3, status).ptr;
    *at++ = ' ';  // also before an empty phrase (RFC 9112, 4)
    at = put(at, reason_phrase(status));
    at = put(at, "\r\n");
  }

  std::size_t left_out = 0;
  bool has_date = head.date.empty();
  bool has_server = head.server.empty();
  bool replaced = head.common.empty();
  std::uint32_t trusted = head.trusted;
  for (const auto& [name, value] : head.fields) {
    const bool known = (trusted & 1) != 0;
    trusted >>= 1;
    if (known) [[likely]] {
      at = put_field(at, name, value);
      continue;
    }
    if (is_framing(name)) continue;
    // The field is validated after it has been written. The check of a short text is faster if bytes precede it in the
    // buffer.
    char* const written = put_field(at, name, value);
    const char* const name_end = at + name.size();
    if (!is_field_name(begin, at, name_end) || !is_field_value(begin, name_end + 2, written - 2)) [[unlikely]] {
      ++left_out;
      continue;
    }
    at = written;
    if (name.size() == 4 && same_name(name, "date")) has_date = replaced = true;
    if (name.size() == 6 && same_name(name, "server")) has_server = replaced = true;
  }
  if (!replaced) [[likely]] {
    at = put(at, head.common);
  } else {
    if (!has_date) at = put_field(at, "Date", head.date);
    if (!has_server) at = put_field(at, "Server", head.server);
    at = put(at, head.always);
  }

  using Kind = BodyFraming::Kind;
  if (!has_no_body(status)) {
    if (head.framing.kind == Kind::chunked) {
      at = put(at, "Transfer-Encoding: chunked\r\n");
    } else if (head.framing.kind != Kind::until_close) {
      at = put(at, "Content-Length: ");
      at = std::to_chars(at, at + 20, head.framing.length).ptr;
      at = put(at, "\r\n");
    }
  }

  // keep-alive is the default in HTTP/1.1 and close in HTTP/1.0. "close" is sent in both versions.
  using Connection = ResponseHead::Connection;
  if (head.connection == Connection::close || head.framing.kind == Kind::until_close) {
    at = put(at, "Connection: close\r\n");
  } else if (head.connection == Connection::upgrade) {
    at = put(at, "Connection: upgrade\r\n");
  } else if (head.version == Version::http10) {
    at = put(at, "Connection: keep-alive\r\n");
  }
  at = put(at, "\r\n");
  out.commit(static_cast<std::size_t>(at - begin));
  return left_out;
}

bool append_field(Buffer& out, std::string_view name, std::string_view value) {
  if (!is_valid(name, value)) return false;
  char* const begin = out.reserve(name.size() + value.size() + 4);
  out.commit(static_cast<std::size_t>(put_field(begin, name, value) - begin));
  return true;
}

}  // namespace sluice::http::h1
