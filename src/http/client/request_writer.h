#pragma once

#include <span>
#include <string_view>

#include "base/buffer.h"
#include "http/fields.h"
#include "http/h1/parser.h"

namespace sluice::http::client {

// What a client asks a server.
struct RequestHead {
  std::string_view method = "GET";
  std::string_view target = "/";  // origin-form, encoded
  std::string_view host;          // the value of Host: a name or an address, with the port where it is not the scheme's
  // Content-Length, Transfer-Encoding, Connection and Host come from this struct alone: among `fields` they are left
  // out.
  std::span<const Field> fields{};
  h1::BodyFraming body{};  // not until_close
};

// Appends the request line and the fields, up to and with the empty line (RFC 9112). Nothing is appended, and it
// returns false, where a part is not valid: a method that is no token, a target or a host with white space or control
// characters, a field that no recipient would take. So nobody who passes on what a peer sent splits a request in two.
[[nodiscard]] bool append_request(Buffer& out, const RequestHead& head);

}  // namespace sluice::http::client
