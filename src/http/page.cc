#include "http/page.h"

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/sha.h>

#include "http/entity_tag.h"
#include "http/exchange.h"

namespace sluice::http {
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
bool knows(const Request& request, std::string_view tag) {
  for (const Field& field : request.fields) {
    if (!same_name(field.name, "if-none-match")) continue;
    if (field.value == "*") return true;
    for (std::string_view list = field.value; !list.empty();) {
      std::string_view one = next_entity_tag(list);
      if (one.starts_with("W/")) one.remove_prefix(2);
      if (one == tag) return true;
    }
  }
  return false;
}

// " 'sha256-...'": a source expression of Content-Security-Policy Level 3 that allows one inline element.
std::string hash_source(std::string_view content) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest;
  SHA256(reinterpret_cast<const unsigned char*>(content.data()), content.size(), digest.data());
  std::array<unsigned char, 4 * ((SHA256_DIGEST_LENGTH + 2) / 3) + 1> base64;
  EVP_EncodeBlock(base64.data(), digest.data(), digest.size());
  return fmt::format(" 'sha256-{}'", reinterpret_cast<const char*>(base64.data()));
}

// The hashes of all elements of this name, or 'none'.
std::string sources_of(std::string_view text, std::string_view element) {
  const std::string begin = fmt::format("<{}>", element);
  const std::string end = fmt::format("</{}>", element);
  std::string sources;
  for (std::size_t at = 0; (at = text.find(begin, at)) != text.npos;) {
    at += begin.size();
    sources += hash_source(text.substr(at, text.find(end, at) - at));
  }
  return sources.empty() ? " 'none'" : sources;
}

}  // namespace

Page::Page(std::string text, std::string content_type, std::string policy)
    : text_(std::move(text)),
      content_type_(std::move(content_type)),
      policy_(std::move(policy)),
      tag_(fmt::format("\"{:016x}\"", hash_of(text_))) {}

std::shared_ptr<const Page> Page::html(std::string text) {
  std::string policy = fmt::format(
      "default-src 'none'; connect-src 'self'; script-src{}; style-src{}; img-src data:; base-uri 'none'; "
      "form-action 'none'; frame-ancestors 'none'",
      sources_of(text, "script"), sources_of(text, "style"));
  return std::shared_ptr<const Page>(new Page(std::move(text), "text/html; charset=utf-8", std::move(policy)));
}

std::shared_ptr<const Page> Page::json(std::string text) {
  return std::shared_ptr<const Page>(new Page(std::move(text), "application/json", {}));
}

Response Page::answer(const Request& request) const {
  if (mixes_any(request.fields, "if-none-match")) return refuse_mixed_any();
  Response response;
  response.fields.add_trusted("ETag", tag_);
  response.fields.add_trusted("Cache-Control", "no-cache");
  if (!policy_.empty()) {
    response.fields.add_trusted("Content-Security-Policy", policy_);
    response.fields.add_trusted("X-Content-Type-Options", "nosniff");
    response.fields.add_trusted("Referrer-Policy", "no-referrer");
  }
  if (knows(request, tag_)) {
    response.status = 304;
    return response;
  }
  response.fields.add_trusted("Content-Type", content_type_);
  response.body = SharedBytes{shared_from_this(), text_};
  return response;
}

core::Async<Response> PageHandler::handle(Exchange& exchange) { return page_->answer(exchange.request); }

}  // namespace sluice::http
