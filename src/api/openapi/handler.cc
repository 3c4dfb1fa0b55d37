#include "api/openapi/handler.h"

#include <cstdint>
#include <string_view>

#include <fmt/format.h>

#include "http/entity_tag.h"

namespace sluice::api::openapi {
namespace {

// FNV-1a: the same on every core and after every restart.
std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 0xCBF29CE484222325U;
  for (const char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001B3U;
  }
  return hash;
}

// If-None-Match uses the weak comparison (RFC 9110, 13.1.2).
bool knows(const http::Request& request, std::string_view tag) {
  for (const http::Field& field : request.fields) {
    if (!http::same_name(field.name, "if-none-match")) continue;
    if (field.value == "*") return true;
    for (std::string_view list = field.value; !list.empty();) {
      std::string_view one = http::next_entity_tag(list);
      if (one.starts_with("W/")) one.remove_prefix(2);
      if (one == tag) return true;
    }
  }
  return false;
}

}  // namespace

Published::Published(std::string document)
    : text(std::move(document)), tag(fmt::format("\"{:016x}\"", hash_of(text))) {}

core::Async<http::Response> DocumentHandler::handle(http::Exchange& exchange) {
  http::Request& request = exchange.request;
  if (http::mixes_any(request.fields, "if-none-match")) return http::refuse_mixed_any();
  http::Response response;
  response.fields.add_trusted("ETag", published_->tag);
  response.fields.add_trusted("Cache-Control", "no-cache");
  if (knows(request, published_->tag)) {
    response.status = 304;
    return response;
  }
  response.fields.add_trusted("Content-Type", "application/json");
  response.body = http::SharedBytes{published_, published_->text};
  return response;
}

}  // namespace sluice::api::openapi
