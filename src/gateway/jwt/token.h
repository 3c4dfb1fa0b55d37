#pragma once

#include <array>
#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace sluice::gateway::jwt {

enum class Algorithm : std::uint8_t { hs256, rs256, es256 };

[[nodiscard]] std::string_view name_of(Algorithm algorithm);
[[nodiscard]] std::optional<Algorithm> parse_algorithm(std::string_view name);

// Why a request is not let through.
enum class Refusal : std::uint8_t {
  missing,      // no Authorization
  scheme,       // one that is not Bearer
  repeated,     // more than one
  too_large,    // a token longer than token_limit
  malformed,    // no JWT: its form, its header or its payload
  unsupported,  // its header asks for what is not built: "crit", "b64"
  algorithm,    // none of the keys is for its "alg"
  key,          // no key has its "kid"
  signature,    // it is not the key's
  issuer,
  audience,
  endless,  // it has no "exp", and require_exp
  expired,
  not_yet,
};
inline constexpr std::size_t refusal_count = 14;

// "too_large", for metrics.
[[nodiscard]] std::string_view name_of(Refusal refusal);

// A JWS in its compact form (RFC 7515, 7.1), taken apart: views into it. The three parts are base64url still.
struct Parts {
  std::string_view header;
  std::string_view payload;
  std::string_view signature;
  std::string_view signing_input;  // header and payload with the dot between them
};
// Nothing: not three parts, or an empty one.
[[nodiscard]] std::optional<Parts> split(std::string_view token);

// What a token's header says. Nothing of it is verified yet, and it decides nothing but which key is tried.
struct Header {
  Algorithm algorithm{};
  std::optional<std::string> key_id;
};

// Reads headers; its buffers are used again.
class HeaderReader {
 public:
  HeaderReader();
  ~HeaderReader();
  // `encoded`: base64url. Members that are not understood are ignored as RFC 7515, 4 says, unless "crit" names them.
  // An algorithm other than ours ("none" is one of those) is Refusal::algorithm.
  [[nodiscard]] std::expected<Header, Refusal> read(std::string_view encoded);

 private:
  struct Json;
  std::unique_ptr<Json> json_;
  std::string text_;
};

}  // namespace sluice::gateway::jwt
