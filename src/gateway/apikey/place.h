#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "gateway/apikey/options.h"
#include "gateway/changed_request.h"
#include "http/request.h"

namespace sluice::gateway::apikey {

// Where a request carries the API key.
struct Place {
  enum class In : std::uint8_t { header, query, cookie };
  In in = In::header;
  std::string name;

  [[nodiscard]] static Place of(const Options& options);
};

struct FoundKey {
  enum class Count : std::uint8_t { none, one, several };
  Count count = Count::none;
  std::string_view text;  // the key; empty if it has an invalid escape
};

// `text` of the result is a view into the request, or into `scratch` if something had to be decoded.
[[nodiscard]] FoundKey find_key(const Place& place, const http::Request& request, std::string& scratch);

// Removes the key from the request's fields, its target and its query string.
void hide_key(const Place& place, http::Request& request, ChangedRequest& changed);

}  // namespace sluice::gateway::apikey
