#include "gateway/limits/key.h"

#include <algorithm>
#include <random>

#include <arpa/inet.h>
#include <xxhash.h>

#include "http/claims.h"
#include "http/fields.h"
#include "http/identity.h"

namespace sluice::gateway::limits {
namespace {

constexpr std::uint64_t odd = 0x9e3779b97f4a7c15;  // 2^64 divided by the golden ratio

}  // namespace

Secret make_secret() {
  Secret secret;
  std::random_device random;
  for (unsigned char& byte : secret) byte = static_cast<unsigned char>(random());
  return secret;
}

std::optional<KeyPart> parse_key_part(std::string_view text) {
  using From = KeyPart::From;
  if (text == "client") return KeyPart{From::client};
  if (text == "route") return KeyPart{From::route};
  for (const auto& [prefix, from] :
       {std::pair<std::string_view, From>{"header.", From::header}, {"claim.", From::claim}, {"path.", From::path}}) {
    if (!text.starts_with(prefix)) continue;
    const std::string_view name = text.substr(prefix.size());
    if (name.empty() || (from == From::header && !http::is_token(name))) return std::nullopt;
    return KeyPart{from, std::string(name)};
  }
  return std::nullopt;
}

std::string check_key_part(std::string_view text) {
  if (parse_key_part(text)) return "";
  return "must be \"client\", \"route\", \"header.NAME\", \"claim.NAME\" or \"path.NAME\"";
}

std::vector<KeyPart> parse_key_parts(const std::vector<std::string>& per, KeyPart::From otherwise) {
  std::vector<KeyPart> parts;
  for (const std::string& one : per) parts.push_back(*parse_key_part(one));
  if (parts.empty()) parts.push_back({otherwise});
  return parts;
}

std::vector<std::string> header_names(const std::vector<std::string>& per) {
  std::vector<std::string> names;
  for (const std::string& one : per) {
    if (auto part = parse_key_part(one); part && part->from == KeyPart::From::header) names.push_back(part->name);
  }
  return names;
}

std::string_view client_of(std::string_view peer, std::array<char, 16>& room) {
  if (!peer.contains(':')) return peer;  // IPv4, or a unix socket
  std::array<char, INET6_ADDRSTRLEN> text;
  const std::size_t size = std::min(peer.find('%'), peer.size());  // the interface name follows '%'
  if (size >= text.size()) return peer;
  *std::ranges::copy(peer.substr(0, size), text.begin()).out = '\0';
  if (::inet_pton(AF_INET6, text.data(), room.data()) != 1) return peer;
  return {room.data(), 8};
}

void KeyMaker::used_by(std::uint16_t route, const http::Pattern& pattern) {
  if (routes_.size() <= route) routes_.resize(std::size_t{route} + 1);
  const std::vector<std::string> names = pattern.names();
  std::vector<std::uint8_t>& values = routes_[route].values;
  values.clear();
  for (const KeyPart& part : parts_) {
    const auto found = std::ranges::find(names, part.name);
    const bool is_there = part.from == KeyPart::From::path && found != names.end();
    values.push_back(is_there ? static_cast<std::uint8_t>(found - names.begin()) : no_value);
  }
}

KeyMaker::Value KeyMaker::value_of(std::size_t part, const http::Exchange& exchange, std::array<char, 16>& room) const {
  const http::Request& request = exchange.request;
  using From = KeyPart::From;
  const From from = parts_[part].from;
  switch (from) {
    case From::client:
      break;
    case From::route:
      room[0] = static_cast<char>(request.route & 0xff);
      room[1] = static_cast<char>(request.route >> 8);
      return {{room.data(), 2}, from};
    case From::header:
      if (const auto value = request.field(parts_[part].name); !value.empty()) return {value, from};
      break;
    case From::claim:
      if (const http::Claims* const claims = http::claims_of(exchange)) {
        const http::Claim* const claim = claims->find(parts_[part].name);
        if (claim != nullptr && claim->kind != http::Claim::Kind::null) return {claim->text, from};
      }
      break;
    case From::path:
      if (request.route < routes_.size() && part < routes_[request.route].values.size()) {
        const std::uint8_t index = routes_[request.route].values[part];
        if (index != no_value) return {request.path_values[index], from};
      }
      break;
  }
  return {client_of(request.peer, room), From::client};
}

Key KeyMaker::make(const http::Exchange& exchange) const {
  Key key;
  for (std::size_t part = 0; part < parts_.size(); ++part) {
    std::array<char, 16> room;
    const auto [text, from] = value_of(part, exchange, room);
    const XXH128_hash_t hash = XXH3_128bits_withSecret(text.data(), text.size(), secret_.data(), secret_.size());
    // Sums of random, secret hashes collide as rarely as the hashes.
    key.low = (key.low + hash.low64 + static_cast<std::uint64_t>(from)) * odd;
    key.high = (key.high + hash.high64 + static_cast<std::uint64_t>(from)) * odd;
  }
  key.low |= 1;
  return key;
}

}  // namespace sluice::gateway::limits
