#include "http/client/request_writer.h"

#include <algorithm>
#include <charconv>

#include "base/copy.h"
#include "http/h1/scan.h"

namespace sluice::http::client {
namespace {

bool is_visible(const char* base, const char* p, const char* end) {
  if (p == end) return false;
  while ((p = h1::find_first<h1::EndsTarget>(base, p, end)) != end && (*p == '?' || *p == '#')) ++p;
  return p == end;
}

bool is_written_by_us(std::string_view name) {
  switch (name.size()) {
    case 2:
      return same_name(name, "te");
    case 4:
      return same_name(name, "host");
    case 7:
      return same_name(name, "upgrade");
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
  if (!is_token(head.method)) return false;
  std::size_t bound = 160 + head.method.size() + head.target.size() + head.host.size() + head.upgrade.size();
  for (const auto& [name, value] : head.fields) bound += name.size() + value.size() + 4;

  // Each part is validated after it has been written. The check of a short text is faster if bytes precede it in the
  // buffer.
  char* const begin = out.reserve(bound);
  char* at = copy_short(begin, head.method);
  *at++ = ' ';
  const char* part = at;
  at = copy_short(at, head.target);
  if (!is_visible(begin, part, at)) return false;
  at = copy_short(at, " HTTP/1.1\r\nHost: ");
  part = at;
  at = copy_short(at, head.host);
  if (!is_visible(begin, part, at)) return false;
  at = copy_short(at, "\r\n");
  for (const auto& [name, value] : head.fields) {
    if (is_written_by_us(name)) continue;
    part = at;
    at = copy_short(at, name);
    if (!h1::is_field_name(begin, part, at)) return false;
    at = copy_short(at, ": ");
    part = at;
    at = copy_short(at, value);
    if (!h1::is_field_value(begin, part, at)) return false;
    at = copy_short(at, "\r\n");
  }
  if (!head.upgrade.empty()) {
    at = copy_short(at, "Connection: Upgrade\r\nUpgrade: ");
    part = at;
    at = copy_short(at, head.upgrade);
    if (!h1::is_field_value(begin, part, at)) return false;
    at = copy_short(at, "\r\n");
  } else if (head.takes_trailers) {
    at = copy_short(at, "Connection: TE\r\nTE: trailers\r\n");
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
