#pragma once

#include <string>
#include <string_view>

// Password hashes by argon2id (RFC 9106) in the PHC format: $argon2id$v=19$m=19456,t=2,p=1$SALT$HASH. Hashes of Apache's
// htpasswd are verified too: bcrypt, $2y$05$..., and 1,000 rounds of MD5, $apr1$SALT$HASH.
namespace sluice::gateway::basic {

// A new hash with a random salt, 19 MiB and two passes, which takes about 30 ms. Throws if there is not enough memory.
[[nodiscard]] std::string hash_password(std::string_view password);

// Returns what is wrong with a hash, or an empty string. At most 1 GiB, 64 passes and 16 lanes are allowed,
// and 2^14 rounds of bcrypt, about 1 s.
[[nodiscard]] std::string check_hash(std::string_view hash);

// Slow, and needs as much memory as the hash says. Precondition: check_hash() returns an empty string.
[[nodiscard]] bool verify_password(const std::string& hash, std::string_view password);

}  // namespace sluice::gateway::basic
