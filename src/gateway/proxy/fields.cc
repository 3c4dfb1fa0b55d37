#include "gateway/proxy/fields.h"

#include <algorithm>

#include "http/h1/parser.h"
#include "http/h1/scan.h"
#include "http/target.h"

namespace sluice::gateway {
namespace {

using http::Field;
using http::same_name;
using Kind = http::h1::BodyFraming::Kind;

// Of one connection, in either direction (RFC 9110, 7.6.1).
bool is_of_connection(std::string_view name) {
  switch (name.size()) {
    case 2:
      return same_name(name, "te");
    case 7:
      return same_name(name, "upgrade");
    case 10:
      return same_name(name, "connection") || same_name(name, "keep-alive");
    case 14:
      return same_name(name, "http2-settings");
    case 16:
      return same_name(name, "proxy-connection");
    case 17:
      return same_name(name, "transfer-encoding");
    default:
      return false;
  }
}

// What a client may not say to a server that trusts us, and what is ours to say.
bool is_ours(std::string_view name) {
  switch (name.size()) {
    case 4:
      return same_name(name, "host");
    case 5:
      return same_name(name, "proxy");  // a program behind CGI takes it for HTTP_PROXY
    case 6:
      return same_name(name, "expect");
    case 7:
      return same_name(name, "trailer");  // those of a request are not passed on
    case 9:
      return same_name(name, "forwarded");
    case 14:
      return same_name(name, "content-length");
    default:
      return name.size() >= 12 && same_name(name.substr(0, 12), "x-forwarded-");
  }
}

// Names that Connection has beside those which are left out anyway.
void collect_named(std::span<const Field> fields, std::vector<std::string_view>& named) {
  named.clear();
  for (const Field& field : fields) {
    if (field.name.size() != 10 || !same_name(field.name, "connection")) continue;
    http::h1::for_each_element(field.value, [&](std::string_view option) {
      if (!same_name(option, "close") && !is_of_connection(option)) named.push_back(option);
    });
  }
}

bool is_named(const std::vector<std::string_view>& named, std::string_view name) {
  return std::ranges::any_of(named, [&](std::string_view one) { return same_name(one, name); });
}

// Whether the target says the path as it is, and no server could read another one.
bool says_path(const http::Request& request) {
  return request.target.starts_with(request.path) && !request.has_empty_segment &&
         (request.target.size() == request.path.size() || request.target[request.path.size()] == '?') &&
         request.segments == request.path;
}

void append_path(std::string& out, std::string_view segments) {
  // Beside unreserved characters, those of a segment (RFC 3986, 3.3).
  constexpr std::string_view kept = "/!$&'()*+,;=:@";
  for (;;) {
    const std::size_t slash = std::min(segments.find('\0'), segments.size());
    http::append_escaped(out, segments.substr(0, slash), kept);
    if (slash == segments.size()) return;
    out += "%2F";
    segments.remove_prefix(slash + 1);
  }
}

}  // namespace

const http::client::RequestHead& ForwardedRequest::make(const http::Request& request, std::string_view default_host) {
  head_.method = request.method_text;
  head_.host = request.authority.empty() ? default_host : request.authority;
  if (says_path(request)) {
    head_.target = request.target;
  } else {
    target_.clear();
    append_path(target_, request.segments);
    if (!request.query.empty()) target_.append("?").append(request.query);
    head_.target = target_;
  }
  head_.body = {};
  const std::string_view length = request.field("content-length");
  if (request.body != nullptr) {
    const auto known = http::h1::parse_content_length(length);
    head_.body = known ? http::h1::BodyFraming{Kind::length, *known} : http::h1::BodyFraming{Kind::chunked, 0};
  } else if (!length.empty() || request.method == http::Method::post || request.method == http::Method::put ||
             request.method == http::Method::patch) {
    head_.body = {Kind::length, 0};
  }
  add_fields(request);
  head_.fields = fields_;
  return head_;
}

void ForwardedRequest::add_fields(const http::Request& request) {
  fields_.clear();
  collect_named(request.fields, named_);
  for (const Field& field : request.fields) {
    if (is_of_connection(field.name) || is_ours(field.name)) continue;
    if (!named_.empty() && is_named(named_, field.name)) [[unlikely]]
      continue;
    fields_.push_back(field);
  }
  if (!request.peer.empty()) fields_.push_back({"X-Forwarded-For", request.peer});
  fields_.push_back({"X-Forwarded-Proto", request.secure ? "https" : "http"});
  if (!request.authority.empty()) fields_.push_back({"X-Forwarded-Host", request.authority});
}

void forward_trailers(std::span<const Field> trailers, http::FieldList& into) {
  constexpr std::size_t most = 64;
  for (const auto& [name, value] : trailers.first(std::min(most, trailers.size()))) {
    if (!is_of_connection(name) && !is_ours(name)) into.add(name, value);
  }
}

void forward_fields(std::span<const Field> fields, http::FieldList& into) {
  std::vector<std::string_view> named;
  collect_named(fields, named);
  for (const auto& [name, value] : fields) {
    if (is_of_connection(name) || (!named.empty() && is_named(named, name))) continue;
    into.add(name, value);
  }
}

}  // namespace sluice::gateway
