#include "gateway/digest.h"

#include <new>
#include <stdexcept>

#include "base/hex.h"

namespace sluice::gateway {

std::optional<Digest> Digest::parse(std::string_view hex) {
  Digest digest;
  if (hex.size() != 2 * digest.bytes.size()) return std::nullopt;
  for (std::size_t i = 0; i < digest.bytes.size(); ++i) {
    const int high = hex_digit(hex[2 * i]);
    const int low = hex_digit(hex[2 * i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    digest.bytes[i] = static_cast<unsigned char>(high << 4 | low);
  }
  return digest;
}

std::string Digest::hex() const {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (const unsigned char byte : bytes) {
    text += digits[byte >> 4];
    text += digits[byte & 15];
  }
  return text;
}

Sha256::Sha256() : algorithm_(EVP_MD_fetch(nullptr, "SHA256", nullptr)), context_(EVP_MD_CTX_new()) {
  if (algorithm_ == nullptr || context_ == nullptr) throw std::bad_alloc();
}

Digest Sha256::of(std::string_view text, std::string_view more) {
  Digest digest;
  if (EVP_DigestInit_ex2(context_.get(), algorithm_.get(), nullptr) != 1 ||
      EVP_DigestUpdate(context_.get(), text.data(), text.size()) != 1 ||
      EVP_DigestUpdate(context_.get(), more.data(), more.size()) != 1 ||
      EVP_DigestFinal_ex(context_.get(), digest.bytes.data(), nullptr) != 1) {
    throw std::bad_alloc();
  }
  return digest;
}

}  // namespace sluice::gateway
