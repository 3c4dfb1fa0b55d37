#include "app/config/digest.h"

#include <cstdint>
#include <stdexcept>

#include <openssl/evp.h>

#include "gateway/digest.h"

namespace sluice::app::config {

std::string digest_of(const Source& source) {
  constexpr int rounds = 100'000;
  gateway::Sha256 sha256;
  std::string text;
  for (std::uint32_t file = 0; file < source.count(); ++file) text += source.text(file);
  const gateway::Digest files = sha256.of(text);
  if (source.secrets().empty()) return files.hex();

  std::string secrets;
  for (const std::string& secret : source.secrets()) secrets.append(secret).push_back('\0');
  gateway::Digest stretched;
  const auto size = static_cast<int>(stretched.bytes.size());
  if (PKCS5_PBKDF2_HMAC(secrets.data(), static_cast<int>(secrets.size()), files.bytes.data(), size, rounds,
                        EVP_sha256(), size, stretched.bytes.data()) != 1) {
    throw std::runtime_error("OpenSSL cannot hash the secrets of the configuration");
  }
  return sha256.of(text, stretched.hex()).hex();
}

}  // namespace sluice::app::config
