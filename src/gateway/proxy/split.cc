#include "gateway/proxy/split.h"

#include <algorithm>
#include <array>
#include <new>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <openssl/rand.h>

#include "gateway/proxy/hash_key.h"

namespace sluice::gateway {

void Split::add(std::unique_ptr<http::Handler> handler, std::string_view name, std::uint32_t weight) {
  auto share = std::make_unique<Share>();
  share->id = hash_of(name);
  share->weight = weight;
  share->handler = std::move(handler);
  candidates_.push_back(share.get());
  shares_.push_back(std::move(share));
}

http::Handler& Split::handler_for(std::string_view value) const {
  return *static_cast<Share*>(Choice(candidates_, {}).hash(hash_of(value)))->handler;
}

core::Async<http::Response> Split::handle(http::Exchange& exchange) {
  if (by_) {
    if (const auto value = value_of(*by_, exchange)) return handler_for(*value).handle(exchange);
    if (by_->kind == HashKey::Kind::cookie) return issue_cookie(exchange);
  }
  return static_cast<Share*>(Choice(candidates_, {}).round_robin())->handler->handle(exchange);
}

core::Task<http::Response> Split::issue_cookie(http::Exchange& exchange) {
  std::array<unsigned char, 16> random;
  if (RAND_bytes(random.data(), static_cast<int>(random.size())) != 1) throw std::bad_alloc();
  std::string cookie = by_->name + "=";
  for (const unsigned char byte : random) cookie += fmt::format("{:02x}", byte);
  const std::string_view assigned = std::string_view(cookie).substr(0, by_->name.size() + 1);
  http::Response response = co_await handler_for(std::string_view(cookie).substr(assigned.size())).handle(exchange);
  // A cookie of the server with this name is for the client, and ours would replace it.
  const bool is_set = std::ranges::any_of(response.fields.items(), [&](const http::Field& field) {
    return http::same_name(field.name, "set-cookie") && field.value.starts_with(assigned);
  });
  if (is_set) co_return response;
  cookie += "; Path=/; HttpOnly; SameSite=Lax";
  if (exchange.request.secure) cookie += "; Secure";
  response.fields.add_owned("Set-Cookie", std::move(cookie));
  co_return response;
}

}  // namespace sluice::gateway
