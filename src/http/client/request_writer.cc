#include "http/client/request_writer.h"

#include <algorithm>
#include <charconv>

#include "base/copy.h"
#include "http/h1/scan.h"

namespace sluice::http::client {
namespace {

bool is_visible(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c > 0x20 && c < 0x7F; });
}

bool is_valid_value(std::string_view value) {
  const char* const end = value.data() + value.size();
  return h1::find_first<h1::EndsValue>(value.data(), value.data(), end) == end;
}

bool is_written_by_us(std::string_view name) {
  switch (name.size()) {
    case 4:
      return same_name(name, "host");
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

bool append_request(Buffer& out, const RequestHead& head) {
  if (!is_token(head.method) || !is_visible(head.target) || !is_visible(head.host)) return false;
  std::size_t bound = 128 + head.method.size() + head.target.size() + head.host.size();
  for (const auto& [name, value] : head.fields) {
    if (!is_token(name) || !is_valid_value(value)) return false;
    bound += name.size() + value.size() + 4;
  }

  char* const begin = out.reserve(bound);
  char* at = copy_short(begin, head.method);
  *at++ = ' ';
  at = copy_short(at, head.target);
  at = copy_short(at, " HTTP/1.1\r\nHost: ");
  at = copy_short(at, head.host);
  at = copy_short(at, "\r\n");
  for (const auto& [name, value] : head.fields) {
    if (is_written_by_us(name)) continue;
    at = copy_short(at, name);
    at = copy_short(at, ": ");
    at = copy_short(at, value);
    at = copy_short(at, "\r\n");
  }
  if (head.body.kind == h1::BodyFraming::Kind::chunked) {
    at = copy_short(at, "Transfer-Encoding: chunked\r\n");
  } else if (head.body.kind == h1::BodyFraming::Kind::length) {
    at = copy_short(at, "Content-Length: ");
    at = std::to_chars(at, at + 20, head.body.length).ptr;
    at = copy_short(at, "\r\n");
  }
  at = copy_short(at, "\r\n");
  out.commit(static_cast<std::size_t>(at - begin));
  return true;
}

}  // namespace sluice::http::client
