#include "http/h2/head.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "base/copy.h"
#include "http/h1/scan.h"
#include "http/target.h"

namespace sluice::http::h2 {

Priority parse_priority(std::string_view value) {
  Priority priority;
  while (!value.empty()) {
    const std::size_t comma = std::min(value.find(','), value.size());
    std::string_view item = value.substr(0, comma);
    value.remove_prefix(std::min(value.size(), comma + 1));
    while (!item.empty() && h1::is_ows(item.front())) item.remove_prefix(1);
    while (!item.empty() && h1::is_ows(item.back())) item.remove_suffix(1);
    if (item.size() == 3 && item.starts_with("u=") && item[2] >= '0' && item[2] <= '7') {
      priority.urgency = static_cast<std::uint8_t>(item[2] - '0');
    } else if (item == "i" || item == "i=?1") {
      priority.incremental = true;
    } else if (item == "i=?0") {
      priority.incremental = false;
    }
  }
  return priority;
}

bool KnownAuthority::is_valid(std::string_view authority) {
  if (size_ != 0 && authority.size() == size_ && std::memcmp(authority.data(), text_.data(), size_) == 0) return true;
  if (!is_authority(authority, PortIs::optional)) return false;
  if (authority.size() <= text_.size()) {
    size_ = static_cast<std::uint8_t>(authority.size());
    std::memcpy(text_.data(), authority.data(), authority.size());
  }
  return true;
}

bool is_allowed_field(std::string_view name, std::string_view value, bool name_is_known) {
  if (!name_is_known) {
    if (name.empty()) return false;
    for (const char c : name) {
      if (!is_token_char(c) || (c >= 'A' && c <= 'Z')) return false;
    }
  }
  switch (name.size()) {  // RFC 9113, 8.2.2
    case 2:
      if (name == "te" && !same_name(value, "trailers")) return false;
      break;
    case 7:
      if (name == "upgrade") return false;
      break;
    case 10:
      if (name == "connection" || name == "keep-alive") return false;
      break;
    case 16:
      if (name == "proxy-connection") return false;
      break;
    case 17:
      if (name == "transfer-encoding") return false;
      break;
    default:
      break;
  }
  if (value.empty()) return true;
  if (h1::is_ows(value.front()) || h1::is_ows(value.back())) return false;
  const char* const end = value.data() + value.size();
  return h1::find_first<h1::EndsValue>(value.data(), value.data(), end) == end;
}

void RequestHead::reset() {
  bytes_ = count_ = 0;
  malformed_ = too_large_ = expects_continue_ = has_other_expectation_ = false;
  pseudo_ = cookies_ = hosts_ = 0;
  priority_.reset();
  content_length_.reset();
  method_ = scheme_ = path_ = authority_ = host_ = protocol_ = {};
  fields_.clear();
}

void RequestHead::add(core::Arena& arena, std::string_view name, std::string_view value, bool name_is_known,
                      const HeadLimits& limits) {
  ++count_;
  bytes_ += name.size() + value.size() + field_overhead;
  if (bytes_ > limits.size) too_large_ = true;
  if (too_large_ || malformed_) return;
  if (name.starts_with(':')) return add_pseudo(arena, name, value);
  if (!is_allowed_field(name, value, name_is_known)) {
    malformed_ = true;
    return;
  }
  if (fields_.size() == limits.fields) {
    too_large_ = true;
    return;
  }
  char* text = static_cast<char*>(arena.allocate((name_is_known ? 0 : name.size()) + value.size(), 1));
  if (!name_is_known) {
    char* const text_name = text;
    text = copy_short(text, name);
    name = {text_name, name.size()};
  }
  static_cast<void>(copy_short(text, value));
  value = {text, value.size()};
  fields_.push_back({name, value});
  recognise(name, value);
}

// Pseudo-fields must be known, occur once, and precede all other fields (RFC 9113, 8.3).
void RequestHead::add_pseudo(core::Arena& arena, std::string_view name, std::string_view value) {
  Pseudo which{};
  std::string_view* place = nullptr;
  const auto is = [&](std::string_view text, Pseudo pseudo, std::string_view& its_place) {
    if (name != text) return;
    which = pseudo;
    place = &its_place;
  };
  switch (name.size()) {
    case 5:
      is(":path", path, path_);
      break;
    case 7:
      is(":method", method, method_);
      is(":scheme", scheme, scheme_);
      break;
    case 9:
      is(":protocol", protocol, protocol_);
      break;
    case 10:
      is(":authority", authority, authority_);
      break;
    default:
      break;
  }
  if (which == 0 || (pseudo_ & which) != 0 || !fields_.empty()) {
    malformed_ = true;
    return;
  }
  pseudo_ = static_cast<std::uint8_t>(pseudo_ | which);
  *place = arena.copy(value);
}

void RequestHead::recognise(std::string_view name, std::string_view value) {
  switch (name.size()) {
    case 4:
      if (name == "host") {
        ++hosts_;
        host_ = value;
      }
      break;
    case 6:
      if (name == "cookie") ++cookies_;
      if (name == "expect") (same_name(value, "100-continue") ? expects_continue_ : has_other_expectation_) = true;
      break;
    case 8:
      if (name == "priority") priority_ = parse_priority(value);
      break;
    case 14:
      if (name == "content-length") {
        std::uint64_t length = 0;
        const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), length);
        if (end != value.data() + value.size() || error == std::errc::invalid_argument || content_length_) {
          malformed_ = true;
        }
        content_length_ = error == std::errc{} ? length : UINT64_MAX;
      }
      break;
    default:
      break;
  }
}

// RFC 9113, 8.1.1, 8.3.1 and 8.5; RFC 8441, 4. A section that is too large has not been parsed completely.
bool RequestHead::is_malformed(bool ended) const {
  if (malformed_) return true;
  if (too_large_) return false;
  if (ended && content_length_.value_or(0) != 0) return true;
  if ((pseudo_ & method) == 0 || !is_token(method_)) return true;
  if (method_ == "CONNECT" && !is_extended_connect()) return pseudo_ != (method | authority);
  if (is_extended_connect() && (method_ != "CONNECT" || !is_token(protocol_))) return true;
  return (pseudo_ & (scheme | path)) != (scheme | path) || path_.empty();
}

Refusal RequestHead::finish(core::Arena& arena, KnownAuthority& known, const HeadLimits& limits, Request& request) {
  request.method = parse_method(method_);
  if (too_large_) return {431, "The header section is too large or has too many fields."};
  if (method_.size() > max_method_size) return {501, "The request method is too long."};
  if (is_extended_connect() && content_length_) return {400, "CONNECT has no content."};
  if (has_other_expectation_) return {417, "No expectation but 100-continue is supported."};
  if (hosts_ > 1) return {400, "The Host field comes more than once."};
  // Host and :authority must agree, so that client and server cannot mean different hosts (RFC 9113, 8.3.1).
  const bool has_authority = (pseudo_ & authority) != 0;
  if (hosts_ != 0 && has_authority && !same_name(host_, authority_)) {
    return {400, "The Host field differs from the authority."};
  }
  if (cookies_ > 1) join_cookies(arena);

  request.version = Version::http2;
  request.method_text = method_;
  request.authority = has_authority ? authority_ : host_;
  request.fields = fields_;
  request.upgrade = protocol_;
  if (request.method == Method::connect && !is_extended_connect()) {
    if (!is_authority(request.authority, PortIs::required)) return {400, "The authority is not valid."};
    request.target = request.authority;
    request.path = request.segments = request.query = {};
    return {};
  }
  if (!known.is_valid(request.authority)) return {400, "The authority is missing or not valid."};
  if (!same_name(scheme_, "http") && !same_name(scheme_, "https")) return {400, "The scheme is not one of HTTP's."};
  return finish_target(arena, limits, request);
}

// The same rules as in HTTP/1.1: any visible ASCII except '#', and the path is decoded.
Refusal RequestHead::finish_target(core::Arena& arena, const HeadLimits& limits, Request& request) {
  using h1::find_first;
  if (path_.size() > limits.target_size) return {414, "The request target is too long."};
  request.target = path_;
  request.query = {};
  request.has_empty_segment = false;
  if (path_ == "*" && request.method == Method::options) {
    request.path = request.segments = path_;
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
  request.path = request.segments = {begin, static_cast<std::size_t>(path_end - begin)};
  if (plain_end == path_end) return {};

  char* const out = static_cast<char*>(arena.allocate(request.path.size(), 1));
  const DecodedPath decoded = decode_path(request.path, out);
  if (decoded.fault == DecodedPath::Fault::bad_escape) return {400, "The path has an invalid percent escape."};
  if (decoded.fault == DecodedPath::Fault::nul) {
    return {400, "The path holds the character NUL (%00), which is not allowed."};
  }
  if (decoded.fault == DecodedPath::Fault::above_root) return {400, "The path leads above the root."};
  if (decoded.fault == DecodedPath::Fault::bad_character) return {400, "The request target is not valid."};
  request.path = request.segments = {out, decoded.size};
  request.has_empty_segment = decoded.has_empty_segment;
  if (decoded.has_encoded_slash) [[unlikely]] {
    char* const path = static_cast<char*>(arena.allocate(decoded.size, 1));
    std::replace_copy(out, out + decoded.size, path, '\0', '/');
    request.path = {path, decoded.size};
  }
  return {};
}

// A client may split its cookies into several fields for better compression. Joins them into one field (RFC 9113,
// 8.2.3).
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
