#pragma once

#include <span>
#include <string_view>

#include "base/buffer.h"
#include "http/fields.h"
#include "http/h1/parser.h"

namespace sluice::http::client {

// The head of a client's request.
struct RequestHead {
  std::string_view method = "GET";
  std::string_view target = "/";  // origin-form, encoded
  std::string_view host;  // the value of Host: a name or an address, with the port if it is not the scheme's default
  // Content-Length, Transfer-Encoding, Connection, TE, Upgrade and Host come only from other members; in `fields` they
  // are ignored.
  std::span<const Field> fields{};
  std::string_view upgrade{};   // the protocols that the server may switch to; empty: none
  bool takes_trailers = false;  // whether to send `TE: trailers`; not with an upgrade
  h1::BodyFraming body{};       // not until_close
};

// Appends the request line and the fields, including the empty line (RFC 9112). If a part is invalid, appends nothing
// and returns false: a method that is not a token, a target or a host with white space or control characters, or an
// invalid field. This prevents request splitting when a caller forwards data from a peer.
[[nodiscard]] bool append_request(Buffer& out, const RequestHead& head);

}  // namespace sluice::http::client
