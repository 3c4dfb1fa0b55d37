#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "http/exchange.h"
#include "http/request.h"
#include "http/router.h"

namespace sluice::gateway::limits {

// The value that a limit counts by, as 128 bits of a keyed hash. So tables hold no text, and clients cannot choose
// values that collide. `low` is odd, so that a zeroed entry of a table is not a key.
struct Key {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  bool operator==(const Key&) const = default;
};

// The key of the hash: the same on all cores, different in each process.
using Secret = std::array<unsigned char, 192>;
[[nodiscard]] Secret make_secret();

// One entry of `per`: "client", "route", "header.NAME", "claim.NAME" or "path.NAME".
struct KeyPart {
  enum class From : std::uint8_t { client, route, header, claim, path };
  From from{};
  std::string name{};
};
[[nodiscard]] std::optional<KeyPart> parse_key_part(std::string_view text);
// Returns what is wrong with an entry, or an empty string.
[[nodiscard]] std::string check_key_part(std::string_view text);
// Parses `per`; if it is empty, returns `otherwise`.
[[nodiscard]] std::vector<KeyPart> parse_key_parts(const std::vector<std::string>& per,
                                                   KeyPart::From otherwise = KeyPart::From::client);

// The header fields that the entries name.
[[nodiscard]] std::vector<std::string> header_names(const std::vector<std::string>& per);

// Makes the key of a request. If the request lacks a header, claim or path parameter, its client's address is used.
class KeyMaker {
 public:
  KeyMaker(std::vector<KeyPart> parts, const Secret& secret) : parts_(std::move(parts)), secret_(secret) {}

  // Called before requests of that route arrive.
  void used_by(std::uint16_t route, const http::Pattern& pattern);
  [[nodiscard]] Key make(const http::Exchange& exchange) const;

 private:
  static constexpr std::uint8_t no_value = 0xff;

  // For each part that is a path parameter: the index of its value in Request::path_values.
  struct Route {
    std::vector<std::uint8_t> values;
  };
  struct Value {
    std::string_view text;
    KeyPart::From from{};
  };

  [[nodiscard]] Value value_of(std::size_t part, const http::Exchange& exchange, std::array<char, 16>& room) const;

  const std::vector<KeyPart> parts_;
  const Secret secret_;
  std::vector<Route> routes_;  // by id
};

// The bytes that identify a client: its IPv4 address, or the first 64 bits of its IPv6 address, which belong to one
// subscriber. `peer` is an address as in Request; `room` may hold the result.
[[nodiscard]] std::string_view client_of(std::string_view peer, std::array<char, 16>& room);

}  // namespace sluice::gateway::limits
