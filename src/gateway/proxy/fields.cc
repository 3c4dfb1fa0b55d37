#include "gateway/proxy/fields.h"

#include <algorithm>
#include <optional>
#include <random>

#include <fmt/format.h>

#include "base/ascii.h"
#include "base/assert.h"
#include "base/hex.h"
#include "gateway/changed_request.h"
#include "http/accept.h"
#include "http/compress/negotiate.h"
#include "http/h1/parser.h"
#include "http/h1/scan.h"
#include "http/target.h"
#include "http/websocket/handshake.h"

namespace sluice::gateway {
namespace {

using http::Field;
using http::same_name;
using Kind = http::h1::BodyFraming::Kind;

// Whether this is a hop-by-hop field, in requests or responses (RFC 9110, 7.6.1).
bool is_of_connection(std::string_view name) {
  switch (name.size()) {
    case 2:
      return is_read_as(name, "te");
    case 7:
      return is_read_as(name, "upgrade");
    case 10:
      return is_read_as(name, "connection") || is_read_as(name, "keep-alive");
    case 14:
      return is_read_as(name, "http2-settings");
    case 16:
      return is_read_as(name, "proxy-connection");
    case 17:
      return is_read_as(name, "transfer-encoding");
    default:
      return false;
  }
}

// Whether a client must not send the field to a server that trusts us, or we set it ourselves.
bool is_said_by_us(std::string_view name) {
  switch (name.size()) {
    case 4:
      return is_read_as(name, "host");
    case 5:
      return is_read_as(name, "proxy");  // CGI programs read it as HTTP_PROXY
    case 6:
      return is_read_as(name, "expect");
    case 9:
      return is_read_as(name, "forwarded") || is_read_as(name, "x-real-ip");
    default:
      return is_read_as(name.substr(0, 12), "x-forwarded-") || is_read_as(name, "content-length");
  }
}

// Whether this is one of the fields with which a trusted proxy describes the client.
bool is_forwarded(std::string_view name) { return name.size() >= 12 && same_name(name.substr(0, 12), "x-forwarded-"); }

// Fields of requests that must not come as trailers.
bool is_for_heads_only(std::string_view name) {
  const auto begins = [&](std::string_view prefix) { return is_read_as(name.substr(0, prefix.size()), prefix); };
  const auto is = [&](std::string_view other) { return is_read_as(name, other); };
  return begins("content-") || begins("if-") || begins("proxy-") || is("authorization") || is("cookie") ||
         is("cache-control") || is("max-forwards") || is("range") || is("trailer");
}

// Collects the names in Connection, except those that are left out anyway.
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

// Whether the target contains the path unchanged, and no server could read another path from it.
bool says_path(const http::Request& request) {
  return request.target.starts_with(request.path) && !request.has_empty_segment &&
         (request.target.size() == request.path.size() || request.target[request.path.size()] == '?') &&
         request.segments == request.path;
}

// The path of a target in origin form or absolute form.
std::string_view sent_path(std::string_view target) {
  target = target.substr(0, target.find('?'));
  if (target.starts_with('/')) return target;
  const std::size_t scheme = target.find("://");
  const std::size_t begin = scheme != target.npos ? target.find('/', scheme + 3) : target.npos;
  return begin != target.npos ? target.substr(begin) : "/";
}

// Appends a valid path as it was sent except for equivalent spellings: without "." and ".." segments and repeated
// slashes, with escapes in upper case and only where needed (RFC 3986, 6.2.2). `%2B` stays different from `+`.
// `keeps_slashes`: repeated slashes stay; then the path has no "." and ".." segments.
void append_sent_path(std::string& out, std::string_view raw, bool keeps_slashes) {
  const std::size_t root = out.size();
  out += '/';
  std::size_t segment = out.size();
  for (std::size_t i = 1;; ++i) {
    const bool is_end = i >= raw.size();
    if (is_end || raw[i] == '/') {
      const std::string_view text = std::string_view(out).substr(segment);
      if (text == ".") {
        out.resize(segment);
      } else if (text == "..") {
        SLUICE_ASSERT(segment > root + 1);
        out.resize(segment - 1);
        out.resize(out.rfind('/') + 1);
      } else if (!is_end && (keeps_slashes || !text.empty())) {
        out += '/';
      }
      if (is_end) return;
      segment = out.size();
    } else if (raw[i] == '%') {
      SLUICE_ASSERT(raw.size() - i >= 3);
      const char byte = static_cast<char>(hex_digit(raw[i + 1]) << 4 | hex_digit(raw[i + 2]));
      http::append_escaped(out, {&byte, 1});
      i += 2;
    } else {
      http::append_path(out, raw.substr(i, 1));
    }
  }
}

bool is_if_match(std::string_view name) { return name.size() == 8 && same_name(name, "if-match"); }
bool is_if_none_match(std::string_view name) { return name.size() == 13 && same_name(name, "if-none-match"); }

// Appends a list of entity-tags. A tag that ends in a semicolon and a suffix loses both if removed(suffix) is true.
template <class Removed>
void append_tags(std::string& out, std::string_view list, Removed removed) {
  for (;;) {
    const std::size_t quote = list.find('"');
    if (quote == list.npos) break;
    std::string_view text = list.substr(0, quote);
    const std::size_t suffix = text.rfind(';');
    if (suffix != text.npos && removed(text.substr(suffix + 1))) text = text.substr(0, suffix);
    out += text;
    out += '"';
    list.remove_prefix(quote + 1);
  }
  out += list;
}

// The host that the client has asked for, possibly as reported by a trusted proxy.
std::string_view public_host(const http::Request& request) {
  std::string_view host = request.authority;
  if (!request.from_proxy) return host;
  for (const Field& field : request.fields.first(request.fields.size() - request.own_fields)) {
    if (same_name(field.name, "x-forwarded-host")) host = field.value;
  }
  return host;
}

std::string_view without_port(std::string_view authority, std::string_view port) {
  if (authority.ends_with(port)) authority.remove_suffix(port.size());
  return authority;
}

// A reference to something that the client gets through us.
struct OwnReference {
  std::string_view origin;  // the scheme and the host as the reference has them; may be empty
  std::string_view path;    // the rest
  bool is_foreign = false;  // the origin is not the client's
};

// Returns nothing if the reference is relative or to another host.
std::optional<OwnReference> own_reference(const Restoration& how, const http::Request& request,
                                          std::string_view reference) {
  if (reference.starts_with("//")) return std::nullopt;
  if (reference.starts_with('/')) return OwnReference{.origin = {}, .path = reference};
  const std::size_t scheme = reference.find("://");
  if (scheme == reference.npos) return std::nullopt;
  const bool is_secure = same_name(reference.substr(0, scheme), "https");
  if (!is_secure && !same_name(reference.substr(0, scheme), "http")) return std::nullopt;
  const std::size_t end = std::min(reference.find_first_of("/?#", scheme + 3), reference.size());
  OwnReference own{.origin = reference.substr(0, end), .path = reference.substr(end)};
  const auto port = [](bool secure) { return secure ? ":443" : ":80"; };
  const std::string_view host = without_port(own.origin.substr(scheme + 3), port(is_secure));
  const std::string_view client_host = without_port(public_host(request), port(request.secure));
  if (same_name(host, client_host) && is_secure == request.secure) return own;
  if (how.server_host.empty() || !http::is_authority(client_host, http::PortIs::optional)) return std::nullopt;
  own.is_foreign = true;
  if (same_name(host, client_host) && request.secure) return own;
  if (same_name(host, how.server_host) && is_secure == how.server_is_secure) return own;
  return std::nullopt;
}

// The path that a cookie is limited to, that of the last `Path` (RFC 6265, 5.3); nothing if it has none.
std::optional<std::string_view> path_of_cookie(std::string_view cookie) {
  std::string_view path;
  for (std::size_t begin = cookie.find(';'); begin != cookie.npos;) {
    const std::size_t end = cookie.find(';', ++begin);
    const std::string_view attribute = cookie.substr(begin, end - begin);
    const std::size_t equals = std::min(attribute.find('='), attribute.size());
    if (same_name(trim_blanks(attribute.substr(0, equals)), "path")) {
      path = trim_blanks(attribute.substr(std::min(equals + 1, attribute.size())));
    }
    begin = end;
  }
  return path.starts_with('/') ? std::optional(path) : std::nullopt;
}

// Whether a server could read a segment "." or ".." here, and so a different path than policies have seen. A server
// could do so if it takes an encoded slash or a backslash as a separator, or removes `;...` from segments.
bool may_lead_elsewhere(std::string_view segments) {
  constexpr std::string_view unusual("\\;\0", 3);
  constexpr std::string_view separators("/\\\0", 3);
  if (segments.find_first_of(unusual) == segments.npos) return false;
  while (!segments.empty()) {
    const std::size_t end = std::min(segments.find_first_of(separators), segments.size());
    std::string_view segment = segments.substr(0, end);
    segment = segment.substr(0, segment.find(';'));
    if (segment == "." || segment == "..") return true;
    segments.remove_prefix(std::min(end + 1, segments.size()));
  }
  return false;
}

}  // namespace

const http::client::RequestHead* ForwardedRequest::make(const http::Request& request, std::string_view server_host,
                                                        const Options& options) {
  const PathChange* const change = options.change;
  const bool is_extended_connect = request.method == http::Method::connect;
  head_.method = is_extended_connect ? "GET" : request.method_text;
  head_.upgrade = options.upgrade;
  head_.host = options.preserve_host && !request.authority.empty() ? request.authority : server_host;
  if (may_lead_elsewhere(request.segments)) return nullptr;
  if (says_path(request) && change == nullptr) {
    head_.target = request.target;
  } else {
    target_.clear();
    const std::string_view sent = sent_path(request.target);
    const bool keeps_slashes = options.keeps_slashes && request.has_empty_segment;
    if (keeps_slashes && http::has_dot_segment(sent)) return nullptr;
    append_sent_path(target_, sent, keeps_slashes);
    if (keeps_slashes && (target_.starts_with("//") || (change != nullptr && !change->is_below_prefix(target_)))) {
      return nullptr;
    }
    if (change != nullptr) {
      if (!change->apply(target_)) return nullptr;
      segments_.resize(target_.size());
      const http::DecodedPath made = http::decode_path(target_, segments_.data());
      if (made.fault != http::DecodedPath::Fault::none) return nullptr;
      if (may_lead_elsewhere(std::string_view(segments_).substr(0, made.size))) return nullptr;
    }
    if (!request.query.empty()) target_.append("?").append(request.query);
    head_.target = target_;
  }
  head_.body = {};
  const std::string_view length = request.field("content-length");
  if (options.body_size) {
    head_.body = {Kind::length, *options.body_size};
  } else if (request.body != nullptr) {
    const auto known = http::h1::parse_content_length(length);
    head_.body = known ? http::h1::BodyFraming{Kind::length, *known} : http::h1::BodyFraming{Kind::chunked, 0};
  } else if (!length.empty() || request.method == http::Method::post || request.method == http::Method::put ||
             request.method == http::Method::patch) {
    head_.body = {Kind::length, 0};
  }
  add_fields(request, options.client_field);
  if (!options.codings.empty()) remove_codings(request.field("accept-encoding"), options.codings);
  if (change != nullptr && !change->prefix().empty()) fields_.push_back({"X-Forwarded-Prefix", change->prefix()});
  via_ = request.version == http::Version::http2 ? "2 " : request.version == http::Version::http11 ? "1.1 " : "1.0 ";
  via_ += via_name();
  fields_.push_back({"Via", via_});
  websocket_key_ = {};
  if (!head_.upgrade.empty()) add_key(is_extended_connect);
  head_.fields = fields_;
  return &head_;
}

void ForwardedRequest::add_fields(const http::Request& request, std::string_view client_field) {
  fields_.clear();
  head_.takes_trailers = false;
  const auto of_client = request.fields.first(request.fields.size() - request.own_fields);
  collect_named(of_client, named_);
  for (const Field& field : of_client) {
    if (is_of_connection(field.name)) {
      head_.takes_trailers |= field.name.size() == 2 && http::lists_token(field.value, "trailers");
      continue;
    }
    if (is_said_by_us(field.name)) continue;
    if (!named_.empty() && is_named(named_, field.name)) [[unlikely]]
      continue;
    if (!client_field.empty() && is_read_as(field.name, client_field)) [[unlikely]] {
      if (!request.from_proxy || !same_name(field.name, client_field)) continue;
    }
    fields_.push_back(field);
  }
  const auto own = request.fields.last(request.own_fields);
  fields_.insert(fields_.end(), own.begin(), own.end());
  if (request.from_proxy) return add_of_proxy(request, of_client, client_field);
  if (!request.peer.empty()) fields_.push_back({"X-Forwarded-For", request.peer});
  fields_.push_back({"X-Forwarded-Proto", request.secure ? "https" : "http"});
  if (!request.authority.empty()) fields_.push_back({"X-Forwarded-Host", request.authority});
}

void ForwardedRequest::add_key(bool of_our_own) {
  const auto is_key = [](const Field& field) { return same_name(field.name, "sec-websocket-key"); };
  if (of_our_own) {
    std::erase_if(fields_, is_key);
    own_key_ = http::websocket::make_key();
    fields_.push_back({"Sec-WebSocket-Key", own_key_});
  }
  const auto key = std::ranges::find_if(fields_, is_key);
  websocket_key_ = std::ranges::count_if(fields_, is_key) == 1 ? key->value : std::string_view{};
}

// Reserves memory for all values before it makes views into them.
void ForwardedRequest::remove_codings(std::string_view accepted, std::span<const http::compress::Coding> codings) {
  std::size_t room = 0;
  for (const auto& [name, value] : fields_) {
    if ((is_if_match(name) || is_if_none_match(name)) && value.contains(';')) room += value.size();
  }
  if (room == 0) [[likely]]
    return;
  conditions_.clear();
  conditions_.reserve(room);
  for (auto& [name, value] : fields_) {
    const bool none_match = is_if_none_match(name);
    if (!(none_match || is_if_match(name)) || !value.contains(';')) continue;
    const std::size_t begin = conditions_.size();
    append_tags(conditions_, value, [&](std::string_view suffix) {
      const auto is_coding = [&](http::compress::Coding one) { return http::compress::name_of(one) == suffix; };
      // A 304 must be about a form that this client would get.
      return std::ranges::any_of(codings, is_coding) && (!none_match || http::lists_token(accepted, suffix));
    });
    value = std::string_view(conditions_).substr(begin);
  }
}

// Keeps a trusted proxy's fields about the client, and adds the proxy's address.
void ForwardedRequest::add_of_proxy(const http::Request& request, std::span<const Field> of_client,
                                    std::string_view client_field) {
  // The proxy vouches for `client_field`, and X-Forwarded-For may be the client's.
  const bool has_chain = client_field.empty();
  chain_ = has_chain || request.peer == request.connection_peer ? std::string_view{} : request.peer;
  for (const Field& field : of_client) {
    if (!is_forwarded(field.name)) continue;
    const std::string_view what = field.name.substr(12);
    if (same_name(what, "for")) {
      if (has_chain) chain_.append(chain_.empty() ? "" : ", ").append(field.value);
    } else if (!same_name(what, "host") && !same_name(what, "proto")) {
      fields_.push_back(field);
    }
  }
  if (!request.connection_peer.empty()) chain_.append(chain_.empty() ? "" : ", ").append(request.connection_peer);
  if (!chain_.empty()) fields_.push_back({"X-Forwarded-For", chain_});
  fields_.push_back({"X-Forwarded-Proto", request.secure ? "https" : "http"});
  const std::string_view host = public_host(request);
  if (!host.empty()) fields_.push_back({"X-Forwarded-Host", host});
}

const std::string& via_name() {
  static const std::string name = [] {
    std::random_device random;
    return fmt::format("sluice-{:08x}{:08x}", random(), random());
  }();
  return name;
}

std::size_t count_passes(const http::Request& request) {
  std::size_t passes = 0;
  for (const auto& [name, value] : request.fields) {
    if (name.size() != 3 || !same_name(name, "via")) continue;
    http::h1::for_each_element(value, [&](std::string_view hop) { passes += hop.ends_with(via_name()) ? 1 : 0; });
  }
  return passes;
}

void forward_trailers(std::span<const Field> trailers, http::FieldList& into) {
  constexpr std::size_t most = 64;
  for (const auto& [name, value] : trailers.first(std::min(most, trailers.size()))) {
    if (!is_of_connection(name) && !is_said_by_us(name) && !same_name(name, "trailer")) into.add(name, value);
  }
}

void forward_request_trailers(const http::Exchange& exchange, std::string_view client_field,
                              std::span<const Field> trailers, std::vector<Field>& into) {
  constexpr std::size_t most = 64;
  into.clear();
  for (const Field& trailer : trailers.first(std::min(most, trailers.size()))) {
    if (is_of_connection(trailer.name) || is_said_by_us(trailer.name) || is_for_heads_only(trailer.name)) continue;
    if (is_read_as(trailer.name, client_field) || exchange.owns_field(trailer.name)) continue;
    into.push_back(trailer);
  }
}

void remove_ours(const http::AnswerFields& ours, http::FieldList& fields) {
  for (const auto& [name, value] : ours.configured(true)) {
    for (std::size_t i = fields.items().size(); i-- != 0;) {
      if (same_name(fields.items()[i].name, name)) fields.remove(i);
    }
  }
}

void restore_references(const Restoration& how, const http::Request& request, http::FieldList& fields) {
  const std::string_view prefix = how.prefix_of != nullptr ? how.prefix_of->prefix() : std::string_view{};
  const auto lacks_prefix = [&](std::string_view path) {
    return !prefix.empty() && !how.prefix_of->is_below_prefix(path);
  };
  for (std::size_t i = 0; i < fields.items().size(); ++i) {
    const auto [name, value] = fields.items()[i];
    std::string restored;
    if (name.size() == 10 && same_name(name, "set-cookie")) {
      if (prefix.empty() || same_name(value.substr(0, 7), "__host-")) continue;
      const auto path = path_of_cookie(value);
      if (!path || !lacks_prefix(*path)) continue;
      const auto at = static_cast<std::size_t>(path->data() - value.data());
      restored.append(value.substr(0, at)).append(prefix).append(value.substr(*path == "/" ? at + 1 : at));
    } else if ((name.size() == 8 && same_name(name, "location")) ||
               (name.size() == 16 && same_name(name, "content-location"))) {
      const auto own = own_reference(how, request, value);
      if (!own || (!own->is_foreign && !lacks_prefix(own->path))) continue;
      if (own->is_foreign) {
        restored.append(request.secure ? "https://" : "http://").append(public_host(request));
      } else {
        restored = own->origin;
      }
      if (lacks_prefix(own->path)) restored += prefix;
      if (!own->path.starts_with('/')) restored += '/';
      restored += own->path;
    } else {
      continue;
    }
    fields.set_owned(i, std::move(restored));
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
