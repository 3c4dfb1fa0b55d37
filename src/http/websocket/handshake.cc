#include "http/websocket/handshake.h"

#include <algorithm>
#include <array>
#include <new>

#include <openssl/evp.h>
#include <openssl/rand.h>
#include <openssl/sha.h>

#include "base/ascii.h"
#include "base/assert.h"
#include "http/accept.h"
#include "http/h1/scan.h"

namespace sluice::http::websocket {
namespace {

bool is_base64_char(char c) { return is_letter(c) || is_digit(c) || c == '+' || c == '/'; }

// Sixteen bytes in base64.
bool is_key(std::string_view text) {
  return text.size() == 24 && text.ends_with("==") && std::ranges::all_of(text.substr(0, 22), is_base64_char);
}

int count_of(std::span<const Field> fields, std::string_view name) {
  return static_cast<int>(
      std::ranges::count_if(fields, [name](const Field& field) { return same_name(field.name, name); }));
}

Response not_a_websocket(const Request& request, std::string_view detail) {
  // 426 requires an Upgrade field (RFC 9110, 15.5.22), which HTTP/2 does not allow.
  Response response = problem(request.version == Version::http2 ? 400 : 426, detail);
  if (request.version != Version::http2) {
    // RFC 9110, 7.8: a sender of Upgrade must list it in Connection.
    response.fields.add_trusted("Connection", "upgrade");
    response.fields.add_trusted("Upgrade", "websocket");
  }
  response.fields.add_trusted("Sec-WebSocket-Version", "13");
  return response;
}

// The client's subprotocols are a list of distinct tokens, possibly in several fields. Chooses the first one that the
// service supports. Returns false if the list is malformed.
bool choose_protocol(std::span<const Field> fields, const std::vector<std::string>& spoken, std::string& chosen) {
  for (const Field& field : fields) {
    if (!same_name(field.name, "sec-websocket-protocol")) continue;
    for (std::string_view rest = field.value; !rest.empty();) {
      const auto end = rest.find(',');
      std::string_view item = rest.substr(0, end);
      rest = end == std::string_view::npos ? std::string_view{} : rest.substr(end + 1);
      while (!item.empty() && h1::is_ows(item.front())) item.remove_prefix(1);
      while (!item.empty() && h1::is_ows(item.back())) item.remove_suffix(1);
      if (item.empty()) continue;
      if (!is_token(item)) return false;
      if (chosen.empty() && std::ranges::find(spoken, item) != spoken.end()) chosen = item;
    }
  }
  return true;
}

}  // namespace

namespace {

std::string to_base64(std::span<const unsigned char> bytes) {
  std::array<unsigned char, 33> encoded;
  SLUICE_ASSERT(bytes.size() <= 24);
  const int size = EVP_EncodeBlock(encoded.data(), bytes.data(), static_cast<int>(bytes.size()));
  return {reinterpret_cast<const char*>(encoded.data()), static_cast<std::size_t>(size)};
}

}  // namespace

std::string make_key() {
  std::array<unsigned char, 16> bytes;
  if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1) throw std::bad_alloc();
  return to_base64(bytes);
}

std::string accept_for(std::string_view key) {
  const std::string text = std::string(key) + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
  std::array<unsigned char, SHA_DIGEST_LENGTH> digest;
  SHA1(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  return to_base64(digest);
}

bool is_same_origin(std::string_view origin, std::string_view authority) {
  const auto scheme_end = origin.find("://");
  if (scheme_end == std::string_view::npos) return false;
  const std::string_view scheme = origin.substr(0, scheme_end);
  const std::string_view default_port = same_name(scheme, "http") ? ":80" : same_name(scheme, "https") ? ":443" : "";
  if (default_port.empty()) return false;
  std::string_view host = origin.substr(scheme_end + 3);
  for (std::string_view* text : {&host, &authority}) {
    if (text->ends_with(default_port)) text->remove_suffix(default_port.size());
  }
  return !host.empty() && same_name(host, authority);
}

std::expected<Handshake, Response> judge_handshake(const Request& request, const HandshakePolicy& policy) {
  const bool over_http2 = request.version == Version::http2;
  if (over_http2 && request.method == Method::connect && !same_name(request.upgrade, "websocket")) {
    return std::unexpected(problem(501, "The only protocol that is spoken here is WebSocket."));
  }
  if (request.method != (over_http2 ? Method::connect : Method::get) || !lists_token(request.upgrade, "websocket")) {
    return std::unexpected(not_a_websocket(request, "Only WebSocket connections are answered here."));
  }
  if (request.field("sec-websocket-version") != "13" || count_of(request.fields, "sec-websocket-version") != 1) {
    return std::unexpected(not_a_websocket(request, "The version of WebSocket that is spoken here is 13."));
  }
  Handshake result;
  if (!over_http2) {
    const std::string_view key = request.field("sec-websocket-key");
    if (!is_key(key) || count_of(request.fields, "sec-websocket-key") != 1) {
      return std::unexpected(problem(400, "Sec-WebSocket-Key must be there once, with 16 bytes in base64."));
    }
    result.accept = accept_for(key);
  }

  // Browsers always send the page's origin. A client without Origin is not a browser and could send any origin.
  if (const int origins = count_of(request.fields, "origin"); origins != 0) {
    const std::string_view origin = request.field("origin");
    const bool granted = policy.origins.empty()
                             ? is_same_origin(origin, request.authority)
                             : std::ranges::any_of(policy.origins, [origin](const std::string& allowed) {
                                 return allowed == "*" || same_name(allowed, origin);
                               });
    if (!granted || origins > 1) {
      return std::unexpected(problem(403, "Pages of this origin may not connect here."));
    }
  }

  if (!choose_protocol(request.fields, policy.protocols, result.protocol)) {
    return std::unexpected(problem(400, "Sec-WebSocket-Protocol is not a list of tokens."));
  }
  Negotiation negotiation = negotiate_deflate(request.fields, policy.deflate.value_or(DeflatePolicy{}));
  if (negotiation.outcome == Negotiation::Outcome::malformed) {
    return std::unexpected(problem(400, "Sec-WebSocket-Extensions is not a list of extensions."));
  }
  if (negotiation.outcome == Negotiation::Outcome::agreed && policy.deflate) {
    result.deflate = negotiation.parameters;
    result.extensions = std::move(negotiation.response);
  }
  return result;
}

}  // namespace sluice::http::websocket
