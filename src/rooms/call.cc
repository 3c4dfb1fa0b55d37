#include "rooms/call.h"

#include <algorithm>
#include <array>
#include <variant>

#include "http/fields.h"

namespace sluice::rooms {
namespace {

// Fields of the handshake and of its connection.
constexpr std::array<std::string_view, 14> not_passed_on{"connection",
                                                         "content-encoding",
                                                         "content-length",
                                                         "content-type",
                                                         "expect",
                                                         "if-match",
                                                         "if-none-match",
                                                         "range",
                                                         "sec-websocket-key",
                                                         "te",
                                                         "sec-websocket-version",
                                                         "sec-websocket-extensions",
                                                         "transfer-encoding",
                                                         "upgrade"};

}  // namespace

Call::Call(const http::websocket::Opening& opening, http::Method method, std::string target, std::string body)
    : InnerRequest(method, std::move(target), std::move(body)) {
  std::vector<http::Field> fields;
  for (const http::Field& field : opening.fields) {
    if (std::ranges::none_of(not_passed_on, [&](std::string_view one) { return http::same_name(one, field.name); })) {
      fields.push_back(field);
    }
  }
  if (request.body != nullptr) fields.push_back({"Content-Type", "application/json"});
  set_fields(std::move(fields));
  request.authority = opening.authority;
  request.peer = opening.peer;
  request.secure = opening.secure;
  request.certificate = opening.certificate;
}

std::string_view text_of(const http::Response& response) {
  if (const auto* buffer = std::get_if<Buffer>(&response.body)) return buffer->view();
  if (const auto* shared = std::get_if<http::SharedBytes>(&response.body)) return shared->bytes;
  return {};
}

}  // namespace sluice::rooms
