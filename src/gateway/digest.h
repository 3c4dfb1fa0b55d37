#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <openssl/crypto.h>
#include <openssl/evp.h>

namespace sluice::gateway {

// SHA-256 of a credential. Credentials are looked up by their digest. A client cannot choose a digest, so the time of a
// look-up reveals nothing about known credentials.
struct Digest {
  std::array<unsigned char, 32> bytes{};

  // From 64 hexadecimal digits; nothing if the text is anything else.
  [[nodiscard]] static std::optional<Digest> parse(std::string_view hex);
  // In lower case.
  [[nodiscard]] std::string hex() const;
  // In constant time.
  friend bool operator==(const Digest& a, const Digest& b) {
    return CRYPTO_memcmp(a.bytes.data(), b.bytes.data(), a.bytes.size()) == 0;
  }
};

struct DigestHash {
  std::size_t operator()(const Digest& digest) const {
    std::size_t hash = 0;
    std::memcpy(&hash, digest.bytes.data(), sizeof hash);
    return hash;
  }
};

// Hashes without allocating memory. Each core has its own.
class Sha256 {
 public:
  Sha256();
  // The digest of `text` followed by `more`.
  [[nodiscard]] Digest of(std::string_view text, std::string_view more = {});

 private:
  struct Free {
    void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
    void operator()(EVP_MD* algorithm) const { EVP_MD_free(algorithm); }
  };
  std::unique_ptr<EVP_MD, Free> algorithm_;
  std::unique_ptr<EVP_MD_CTX, Free> context_;
};

}  // namespace sluice::gateway
