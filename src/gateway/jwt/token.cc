#include "gateway/jwt/token.h"

#include <algorithm>
#include <vector>

#include <simdjson.h>

#include "gateway/jwt/base64url.h"

namespace sluice::gateway::jwt {
namespace {

constexpr std::size_t max_header = 4096;  // bytes of its JSON; real ones have about a hundred

}  // namespace

std::string_view name_of(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::hs256:
      return "HS256";
    case Algorithm::rs256:
      return "RS256";
    case Algorithm::es256:
      return "ES256";
  }
  return {};
}

std::optional<Algorithm> parse_algorithm(std::string_view name) {
  for (const Algorithm one : {Algorithm::hs256, Algorithm::rs256, Algorithm::es256}) {
    if (name == name_of(one)) return one;
  }
  return std::nullopt;
}

std::string_view name_of(Refusal refusal) {
  static constexpr std::array<std::string_view, refusal_count> names = {
      "missing", "scheme",    "repeated", "too_large", "malformed", "unsupported", "algorithm",
      "key",     "signature", "issuer",   "audience",  "endless",   "expired",     "not_yet"};
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
  // Without a signature it is what "none" makes.
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
      unsupported = true;  // whatever it names, we understand no extensions (RFC 7515, 4.1.11)
    } else if (member.key == "b64") {
      bool encodes = false;  // RFC 7797: the payload stands there as it is
      if (member.value.get(encodes) != simdjson::SUCCESS) return malformed;
      if (!encodes) unsupported = true;
    }
  }
  // RFC 7515, 4: names are unique. What one reader takes from the first another would take from the last.
  std::ranges::sort(json_->names);
  if (std::ranges::adjacent_find(json_->names) != json_->names.end() || algorithm.empty()) return malformed;
  if (unsupported) return std::unexpected(Refusal::unsupported);
  const auto known = parse_algorithm(algorithm);
  if (!known) return std::unexpected(Refusal::algorithm);
  header.algorithm = *known;
  return header;
}

}  // namespace sluice::gateway::jwt
