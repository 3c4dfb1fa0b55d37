#include "http/h2/head.h"

#include <charconv>
#include <cstring>

#include "base/copy.h"
#include "http/h1/scan.h"
#include "http/target.h"

namespace sluice::http::h2 {

void RequestHead::reset() {
  bytes_ = count_ = 0;
  too_large_ = has_priority_ = has_protocol_ = false;
  cookies_ = hosts_ = 0;
  content_length_.reset();
  method_ = scheme_ = path_ = authority_ = host_ = {};
  fields_.clear();
}

void RequestHead::add(core::Arena& arena, std::string_view name, std::string_view value, std::size_t header_limit) {
  ++count_;
  bytes_ += name.size() + value.size() + field_overhead;
  if (bytes_ > header_limit || too_large_) {
    too_large_ = true;
    return;
  }
  if (name.starts_with(':')) {
    value = arena.copy(value);
    switch (name.size()) {
      case 5:
        path_ = value;
        break;
      case 7:
        (name[1] == 'm' ? method_ : scheme_) = value;
        break;
      case 9:
        has_protocol_ = true;
        break;
      default:
        authority_ = value;
        break;
    }
    return;
  }
  if (fields_.size() == max_fields) {
    too_large_ = true;
    return;
  }
  char* const text = static_cast<char*>(arena.allocate(name.size() + value.size(), 1));
  char* const text_value = copy_short(text, name);
  static_cast<void>(copy_short(text_value, value));
  name = {text, name.size()};
  value = {text_value, value.size()};
  fields_.push_back({name, value});

  switch (name.size()) {
    case 4:
      if (name == "host") {
        ++hosts_;
        host_ = value;
      }
      break;
    case 6:
      if (name == "cookie") ++cookies_;
      break;
    case 8:
      if (name == "priority") has_priority_ = true;
      break;
    case 14:
      if (name == "content-length") {
        std::uint64_t length = 0;
        if (std::from_chars(value.data(), value.data() + value.size(), length).ec != std::errc{}) length = UINT64_MAX;
        content_length_ = length;
      }
      break;
    default:
      break;
  }
}

Refusal RequestHead::finish(core::Arena& arena, Request& request) {
  if (too_large_) return {431, "The header section is too large or has too many fields."};
  if (method_.size() > max_method_size) return {501, "The request method is too long."};
  if (has_protocol_) return {501, "Extended CONNECT is not supported."};
  if (hosts_ > 1) return {400, "The Host field comes more than once."};
  // They name the same thing; a server that took the one and a client that meant the other would not (RFC 9113, 8.3.1).
  if (hosts_ != 0 && authority_.data() != nullptr && !same_name(host_, authority_)) {
    return {400, "The Host field differs from the authority."};
  }
  if (cookies_ > 1) join_cookies(arena);

  request.method = parse_method(method_);
  request.version = Version::http2;
  request.method_text = method_;
  request.authority = authority_.data() != nullptr ? authority_ : host_;
  request.fields = fields_;
  const bool is_connect = request.method == Method::connect;
  if (!(request.authority.empty() && !is_connect) &&
      !is_authority(request.authority, is_connect ? PortIs::required : PortIs::optional)) {
    return {400, "The authority is not valid."};
  }
  if (is_connect) {
    request.target = request.authority;
    request.path = request.query = {};
    return {};
  }
  if (!same_name(scheme_, "http") && !same_name(scheme_, "https")) return {400, "The scheme is not one of HTTP's."};
  return finish_target(arena, request);
}

// The same rules as HTTP/1.1's: any visible ASCII but '#', the path decoded.
Refusal RequestHead::finish_target(core::Arena& arena, Request& request) {
  using h1::find_first;
  if (path_.size() > max_target_size) return {414, "The request target is too long."};
  request.target = path_;
  request.query = {};
  if (path_ == "*" && request.method == Method::options) {
    request.path = path_;
    return {};
  }
  if (!path_.starts_with('/')) return {400, "The request target is not valid."};
  const char* const begin = path_.data();
  const char* const end = begin + path_.size();
  const char* const plain_end = find_first<h1::EndsPlainPath>(begin, begin + 1, end);
  const char* path_end = plain_end;
  while (path_end != end && *path_end != '?') {
    if (h1::EndsTarget::test(path_end)) return {400, "The request target is not valid."};
    path_end = find_first<h1::EndsTarget>(begin, path_end + 1, end);
  }
  for (const char* at = path_end; at != end;) {
    if (*at != '?') return {400, "The request target is not valid."};
    at = find_first<h1::EndsTarget>(begin, at + 1, end);
  }
  if (path_end != end) request.query = {path_end + 1, static_cast<std::size_t>(end - path_end - 1)};
  request.path = {begin, static_cast<std::size_t>(path_end - begin)};
  if (plain_end == path_end) return {};

  char* const out = static_cast<char*>(arena.allocate(request.path.size(), 1));
  const DecodedPath decoded = decode_path(request.path, out);
  if (decoded.fault == DecodedPath::Fault::bad_escape) return {400, "The path has an invalid percent escape."};
  if (decoded.fault == DecodedPath::Fault::above_root) return {400, "The path leads above the root."};
  request.path = {out, decoded.size};
  return {};
}

// A client may split its cookies for the sake of compression; to everyone else they are one field (RFC 9113, 8.2.3).
void RequestHead::join_cookies(core::Arena& arena) {
  constexpr std::string_view separator = "; ";
  std::size_t size = 0;
  for (const Field& field : fields_) {
    if (field.name == "cookie") size += field.value.size() + separator.size();
  }
  char* const joined = static_cast<char*>(arena.allocate(size, 1));
  char* at = joined;
  std::size_t kept = 0;
  std::size_t first = fields_.size();
  for (const Field& field : fields_) {
    if (field.name != "cookie") {
      fields_[kept++] = field;
      continue;
    }
    if (first == fields_.size()) {
      first = kept;
      fields_[kept++] = field;
    } else {
      at = copy_short(at, separator);
    }
    at = copy_short(at, field.value);
  }
  fields_[first].value = {joined, static_cast<std::size_t>(at - joined)};
  fields_.resize(kept);
}

}  // namespace sluice::http::h2
