#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/changed_request.h"
#include "http/exchange.h"
#include "http/request.h"

namespace sluice::gateway {

// Where a request carries a credential, such as an API key or a token.
struct Place {
  enum class In : std::uint8_t { header, query, cookie };
  In in = In::header;
  std::string name;

  // Parses "header.NAME", "query.NAME" or "cookie.NAME".
  [[nodiscard]] static std::optional<Place> parse(std::string_view text);
  // Whether this is the field Authorization, which has a scheme before its credential.
  [[nodiscard]] bool is_authorization() const { return in == In::header && http::same_name(name, "authorization"); }
  // Whether this is the header field of this name, or CGI, WSGI and Rack read it as that field.
  [[nodiscard]] bool is_field(std::string_view field) const { return in == In::header && is_read_as(field, name); }
  // Names of header fields are case-insensitive.
  [[nodiscard]] bool operator==(const Place& other) const;
};

struct FoundCredential {
  // `repeated`: more than one with the same text; `several`: with different texts.
  enum class Count : std::uint8_t { none, one, repeated, several };
  Count count = Count::none;
  std::string_view text;  // empty if it has an invalid escape
};

// `text` of the result is a view into the request, or into `scratch` if something had to be decoded.
[[nodiscard]] FoundCredential find_credential(const Place& place, const http::Request& request, std::string& scratch);

// Removes the credential from the request's fields, its target and its query string, and every header field that CGI,
// WSGI and Rack read as the one that holds it. With `pass`, the credential itself stays.
void hide_credential(const Place& place, bool pass, http::Exchange& exchange, ChangedRequests& changes);

}  // namespace sluice::gateway
