#include "sql/postgres/auth.h"

#include <array>
#include <charconv>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>

#include <idn-free.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <stringprep.h>

namespace sluice::sql::postgres {
namespace {

using Digest = std::array<unsigned char, 32>;

const unsigned char* bytes_of(std::string_view text) { return reinterpret_cast<const unsigned char*>(text.data()); }

std::string_view view_of(const Digest& digest) { return {reinterpret_cast<const char*>(digest.data()), digest.size()}; }

[[noreturn]] void broken_library() { throw std::runtime_error("OpenSSL refuses MD5 or SHA-256"); }

std::string md5_hex(std::string_view text) {
  std::array<unsigned char, 16> digest;
  unsigned size = 0;
  if (EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_md5(), nullptr) != 1) broken_library();
  std::string hex;
  for (const unsigned char byte : digest) {
    hex += "0123456789abcdef"[byte >> 4];
    hex += "0123456789abcdef"[byte & 15];
  }
  return hex;
}

Digest sha256(std::string_view text) {
  Digest digest;
  unsigned size = 0;
  if (EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha256(), nullptr) != 1) broken_library();
  return digest;
}

Digest hmac(std::string_view key, std::string_view text) {
  Digest digest;
  unsigned size = 0;
  if (HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), bytes_of(text), text.size(), digest.data(), &size) ==
      nullptr) {
    broken_library();
  }
  return digest;
}

std::string base64(std::string_view bytes) {
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');
  const int size =
      EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()), bytes_of(bytes), static_cast<int>(bytes.size()));
  text.resize(static_cast<std::size_t>(size));
  return text;
}

std::optional<std::string> unbase64(std::string_view text) {
  if (text.empty() || text.size() % 4 != 0 || text.size() > 4096) return std::nullopt;
  // EVP_DecodeBlock ignores surrounding white space and keeps the padding's zeros: refuse the first, remove the second.
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool digit =
        (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '+' || c == '/';
    const bool padding = c == '=' && (i + 1 == text.size() || (i + 2 == text.size() && text[i + 1] == '='));
    if (!digit && !padding) return std::nullopt;
  }
  std::string bytes(text.size() / 4 * 3, '\0');
  if (EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()), bytes_of(text), static_cast<int>(text.size())) <
      0) {
    return std::nullopt;
  }
  const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  bytes.resize(bytes.size() - padding);
  return bytes;
}

// Removes "X=value" from the front of a comma-separated list; nullopt if it begins with another attribute.
std::optional<std::string_view> take_attribute(std::string_view& message, char name) {
  if (message.size() < 2 || message[0] != name || message[1] != '=') return std::nullopt;
  const std::size_t end = message.find(',');
  const std::string_view value = message.substr(2, end == std::string_view::npos ? end : end - 2);
  message.remove_prefix(end == std::string_view::npos ? message.size() : end + 1);
  return value;
}

}  // namespace

std::string md5_password(std::string_view user, std::string_view password, std::string_view salt) {
  std::string secret(password);
  secret += user;
  std::string salted = md5_hex(secret);
  salted += salt;
  return "md5" + md5_hex(salted);
}

std::string saslprep(std::string_view password) {
  const std::string raw(password);
  char* out = nullptr;
  if (stringprep_profile(raw.c_str(), &out, "SASLprep", STRINGPREP_NO_UNASSIGNED) != STRINGPREP_OK) return raw;
  const std::unique_ptr<char, decltype(&idn_free)> prepared(out, idn_free);
  return *out == '\0' ? raw : std::string(out);
}

ScramClient::ScramClient(std::string_view user, std::string_view password, std::string nonce, Channel channel,
                         std::string_view binding)
    : password_(saslprep(password)),
      nonce_(std::move(nonce)),
      header_(channel == Channel::server_end_point ? "p=tls-server-end-point,,"
              : channel == Channel::server_cannot  ? "y,,"
                                                   : "n,,"),
      binding_(binding) {
  first_bare_ = "n=";
  for (const char c : user) {
    if (c == ',') {
      first_bare_ += "=2C";
    } else if (c == '=') {
      first_bare_ += "=3D";
    } else {
      first_bare_ += c;
    }
  }
  first_bare_ += ",r=" + nonce_;
}

std::string ScramClient::random_nonce() {
  std::array<unsigned char, 18> bytes;
  if (RAND_bytes(bytes.data(), bytes.size()) != 1) throw std::runtime_error("no random numbers for SCRAM");
  return base64({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

std::expected<std::string, std::string> ScramClient::final_message(std::string_view server_first) {
  std::string_view rest = server_first;
  const auto nonce = take_attribute(rest, 'r');
  const auto salt_text = nonce ? take_attribute(rest, 's') : std::nullopt;
  const auto iterations_text = salt_text ? take_attribute(rest, 'i') : std::nullopt;
  if (!iterations_text) return std::unexpected("the server's SCRAM message is malformed");
  if (nonce->size() <= nonce_.size() || !nonce->starts_with(nonce_)) {
    return std::unexpected("the server's SCRAM nonce does not begin with ours");
  }
  const auto salt = unbase64(*salt_text);
  if (!salt) return std::unexpected("the server's SCRAM salt is not base64");
  unsigned iterations = 0;
  const auto [end, error] =
      std::from_chars(iterations_text->data(), iterations_text->data() + iterations_text->size(), iterations);
  if (error != std::errc() || end != iterations_text->data() + iterations_text->size() || iterations == 0 ||
      iterations > max_iterations) {
    return std::unexpected("the server's SCRAM iteration count is out of range");
  }

  Digest salted;
  if (PKCS5_PBKDF2_HMAC(password_.data(), static_cast<int>(password_.size()), bytes_of(*salt),
                        static_cast<int>(salt->size()), static_cast<int>(iterations), EVP_sha256(),
                        static_cast<int>(salted.size()), salted.data()) != 1) {
    broken_library();
  }
  const std::string without_proof = "c=" + base64(header_ + binding_) + ",r=" + std::string(*nonce);
  const std::string auth_message = first_bare_ + "," + std::string(server_first) + "," + without_proof;
  const Digest client_key = hmac(view_of(salted), "Client Key");
  Digest proof = hmac(view_of(sha256(view_of(client_key))), auth_message);
  for (std::size_t i = 0; i < proof.size(); ++i) proof[i] ^= client_key[i];
  const Digest server_key = hmac(view_of(salted), "Server Key");
  server_signature_ = view_of(hmac(view_of(server_key), auth_message));
  OPENSSL_cleanse(salted.data(), salted.size());
  return without_proof + ",p=" + base64(view_of(proof));
}

bool ScramClient::verify(std::string_view server_final) const {
  const auto signature = take_attribute(server_final, 'v');
  if (!signature || server_signature_.empty()) return false;
  const auto bytes = unbase64(*signature);
  return bytes && bytes->size() == server_signature_.size() &&
         CRYPTO_memcmp(bytes->data(), server_signature_.data(), bytes->size()) == 0;
}

}  // namespace sluice::sql::postgres
