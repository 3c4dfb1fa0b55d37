#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "http/client/request_writer.h"
#include "http/request.h"
#include "http/response.h"

// What of a message a gateway passes on, and what it adds (RFC 9110, 7.6).
namespace sluice::gateway {

// A request as a server gets it. One core's, and used for one request after the other: what it holds lasts until the
// next make().
class ForwardedRequest {
 public:
  // Left out are fields of the connection alone, those that Connection names, and what a client says of whom it came
  // from: X-Forwarded-For, -Proto and -Host say what we know. The path is the one that routes and policies have seen:
  // normalised, with an encoded slash still encoded.
  [[nodiscard]] const http::client::RequestHead& make(const http::Request& request, std::string_view default_host);

 private:
  void add_fields(const http::Request& request);

  http::client::RequestHead head_;
  std::vector<http::Field> fields_;
  std::vector<std::string_view> named_;  // by Connection
  std::string target_;
};

// Adds the fields of a server's response to the answer, except those of the connection alone. Views stay views.
void forward_fields(std::span<const http::Field> fields, http::FieldList& into);
// Likewise what came behind its body, except what would say how a message is read or where it goes (RFC 9110, 6.5.1).
// At most 64 fields.
void forward_trailers(std::span<const http::Field> trailers, http::FieldList& into);

}  // namespace sluice::gateway
