#include "gateway/jwt/token.h"

#include <algorithm>
#include <vector>

#include <simdjson.h>

#include "base/base64url.h"

namespace sluice::gateway::jwt {
namespace {

constexpr std::size_t max_header = 4096;  // size of the JSON; typical headers have about 100 bytes

}  // namespace

std::optional<Algorithm> parse_algorithm(std::string_view name) {
  const auto* const found = std::ranges::find(algorithms, name, &std::pair<std::string_view, Algorithm>::first);
  return found != std::end(algorithms) ? std::optional(found->second) : std::nullopt;
}

std::string_view name_of(Refusal refusal) {
  static constexpr std::array<std::string_view, refusal_count> names = {
      "missing",   "scheme", "repeated",  "different", "origin",   "too_large", "malformed", "unsupported",
      "algorithm", "key",    "signature", "issuer",    "audience", "endless",   "nameless",  "expired",
      "not_yet",   "scope",  "claim",     "no_keys",   "revoked",  "away"};
  return names[static_cast<std::size_t>(refusal)];
}

std::optional<Parts> split(std::string_view token) {
  const auto first = token.find('.');
  if (first == token.npos) return std::nullopt;
  const auto second = token.find('.', first + 1);
  if (second == token.npos || token.find('.', second + 1) != token.npos) return std::nullopt;
  const Parts parts{.header = token.substr(0, first),
                    .payload = token.substr(first + 1, second - first - 1),
                    .signature = token.substr(second + 1),
                    .signing_input = token.substr(0, second)};
  // A token with "alg": "none" has no signature.
  if (parts.header.empty() || parts.payload.empty() || parts.signature.empty()) return std::nullopt;
  return parts;
}

struct HeaderReader::Json {
  simdjson::dom::parser parser;
  std::vector<std::string_view> names;
};

HeaderReader::HeaderReader() : json_(std::make_unique<Json>()) {}
HeaderReader::~HeaderReader() = default;

std::expected<Header, Refusal> HeaderReader::read(std::string_view encoded) {
  const auto malformed = std::unexpected(Refusal::malformed);
  if (encoded.size() > max_header / 3 * 4 || !decode_base64url(encoded, text_)) return malformed;
  simdjson::dom::object object;
  if (json_->parser.parse(text_).get(object) != simdjson::SUCCESS) return malformed;

  Header header;
  std::string_view algorithm;
  bool unsupported = false;
  json_->names.clear();
  for (const auto member : object) {
    json_->names.push_back(member.key);
    if (member.key == "alg") {
      if (member.value.get(algorithm) != simdjson::SUCCESS) return malformed;
    } else if (member.key == "kid") {
      std::string_view id;
      if (member.value.get(id) != simdjson::SUCCESS) return malformed;
      header.key_id = std::string(id);
    } else if (member.key == "crit") {
      unsupported = true;  // we support no extensions (RFC 7515, 4.1.11)
    } else if (member.key == "b64") {
      bool encodes = false;  // false means that the payload is not encoded (RFC 7797)
      if (member.value.get(encodes) != simdjson::SUCCESS) return malformed;
      if (!encodes) unsupported = true;
    }
  }
  // RFC 7515, 4: names must be unique. Otherwise one reader could use the first value and another the last.
  std::ranges::sort(json_->names);
  if (std::ranges::adjacent_find(json_->names) != json_->names.end() || algorithm.empty()) return malformed;
  if (unsupported) return std::unexpected(Refusal::unsupported);
  const auto known = parse_algorithm(algorithm);
  if (!known) return std::unexpected(Refusal::algorithm);
  header.algorithm = *known;
  return header;
}

}  // namespace sluice::gateway::jwt
