#include "gateway/basic/password.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>

#include <argon2.h>
#include <crypt.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>

namespace sluice::gateway::basic {
namespace {

constexpr std::uint32_t memory_kib = 19 * 1024;  // with two passes: recommended by OWASP
constexpr std::uint32_t passes = 2;
constexpr std::uint32_t lanes = 1;
constexpr std::size_t salt_bytes = 16;
constexpr std::size_t hash_bytes = 32;

constexpr std::uint32_t most_memory_kib = 1 << 20;
constexpr std::uint32_t most_passes = 64;
constexpr std::uint32_t most_lanes = 16;
constexpr int most_bcrypt_cost = 14;

// Removes a parameter such as "m=19456," from the beginning of the text and returns its value. `end`: the character
// after it.
std::optional<std::uint32_t> take_number(std::string_view& text, std::string_view name, char end) {
  if (!text.starts_with(name)) return std::nullopt;
  text.remove_prefix(name.size());
  std::uint32_t number = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const auto size = static_cast<std::size_t>(stop - text.data());
  if (error != std::errc{} || size == text.size() || text[size] != end || text[0] == '0') return std::nullopt;
  text.remove_prefix(size + 1);
  return number;
}

// Whether the text is base64 without padding, of at least `least` bytes.
bool is_base64(std::string_view text, std::size_t least) {
  return text.size() >= (least * 4 + 2) / 3 && text.size() <= 128 && text.size() % 4 != 1 &&
         std::ranges::all_of(text, [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '+' || c == '/';
         });
}

constexpr std::string_view apr1 = "$apr1$";
constexpr std::string_view crypt_alphabet = "./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

bool is_crypt_text(std::string_view text) { return text.find_first_not_of(crypt_alphabet) == std::string_view::npos; }

// $2y$COST$ and 53 characters, of the salt and the hash.
std::string check_bcrypt(std::string_view hash) {
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  if (hash.size() != 60 || hash[3] != '$' || hash[6] != '$' || !digit(hash[4]) || !digit(hash[5]) ||
      !is_crypt_text(hash.substr(7))) {
    return "is no whole hash of bcrypt";
  }
  const int cost = (hash[4] - '0') * 10 + (hash[5] - '0');
  return cost < 4 || cost > most_bcrypt_cost ? "has a cost of bcrypt that is not from 4 to 14" : "";
}

std::string check_apr1(std::string_view hash) {
  const std::string_view rest = hash.substr(apr1.size());
  const std::size_t dollar = std::min(rest.find('$'), rest.size());
  const bool is_whole = dollar >= 1 && dollar <= 8 && rest.size() == dollar + 23 &&
                        is_crypt_text(rest.substr(0, dollar)) && is_crypt_text(rest.substr(dollar + 1));
  return is_whole ? "" : "is no whole hash of htpasswd";
}

std::string md5(std::string_view text) {
  std::array<unsigned char, 16> digest{};
  if (EVP_Digest(text.data(), text.size(), digest.data(), nullptr, EVP_md5(), nullptr) != 1) throw std::bad_alloc();
  return {digest.begin(), digest.end()};
}

// The scheme of Apache's htpasswd: that of FreeBSD's crypt() with another prefix.
std::string hash_apr1(std::string_view password, std::string_view salt) {
  const std::string key(password);
  const std::string grain(salt);
  const std::string mixed = md5(key + grain + key);
  std::string text = key + std::string(apr1) + grain;
  for (std::size_t left = key.size(); left != 0; left -= std::min<std::size_t>(left, mixed.size())) {
    text += mixed.substr(0, left);
  }
  for (std::size_t bits = key.size(); bits != 0; bits >>= 1) text += (bits & 1) != 0 ? '\0' : key[0];
  std::string digest = md5(text);
  for (int round = 0; round < 1000; ++round) {
    text = round % 2 != 0 ? key : digest;
    if (round % 3 != 0) text += grain;
    if (round % 7 != 0) text += key;
    text += round % 2 != 0 ? digest : key;
    digest = md5(text);
  }
  std::string hash = std::string(apr1) + grain + "$";
  const auto add = [&](std::initializer_list<int> bytes, int characters) {
    std::uint32_t bits = 0;
    for (const int byte : bytes) bits = bits << 8 | static_cast<unsigned char>(digest[static_cast<std::size_t>(byte)]);
    for (; characters != 0; --characters, bits >>= 6) hash += crypt_alphabet[bits & 63];
  };
  add({0, 6, 12}, 4);
  add({1, 7, 13}, 4);
  add({2, 8, 14}, 4);
  add({3, 9, 15}, 4);
  add({4, 10, 5}, 4);
  add({11}, 2);
  return hash;
}

bool is_same(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace

std::string hash_password(std::string_view password) {
  std::array<unsigned char, salt_bytes> salt{};
  if (RAND_bytes(salt.data(), static_cast<int>(salt.size())) != 1) throw std::runtime_error("there is no randomness");
  std::string hash(argon2_encodedlen(passes, memory_kib, lanes, salt_bytes, hash_bytes, Argon2_id), '\0');
  const int done = argon2id_hash_encoded(passes, memory_kib, lanes, password.data(), password.size(), salt.data(),
                                         salt.size(), hash_bytes, hash.data(), hash.size());
  if (done != ARGON2_OK) throw std::runtime_error(argon2_error_message(done));
  hash.resize(hash.find('\0'));
  return hash;
}

std::string check_hash(std::string_view hash) {
  std::string_view rest = hash;
  constexpr std::string_view begin = "$argon2id$v=19$";
  if (hash.starts_with("$2y$") || hash.starts_with("$2b$") || hash.starts_with("$2a$")) return check_bcrypt(hash);
  if (hash.starts_with(apr1)) return check_apr1(hash);
  if (!rest.starts_with(begin)) {
    return "must be a hash of argon2id (`sluice hash-password` prints one), or of `htpasswd`, by bcrypt or MD5";
  }
  rest.remove_prefix(begin.size());
  const auto memory = take_number(rest, "m=", ',');
  const auto times = memory ? take_number(rest, "t=", ',') : std::nullopt;
  const auto threads = times ? take_number(rest, "p=", '$') : std::nullopt;
  const std::size_t dollar = std::min(rest.find('$'), rest.size());
  if (!threads || !is_base64(rest.substr(0, dollar), 8) || dollar == rest.size() ||
      !is_base64(rest.substr(dollar + 1), 16)) {
    return "is no whole hash of argon2id";
  }
  if (*memory > most_memory_kib || *times > most_passes || *threads > most_lanes || *memory < 8 * *threads) {
    return "takes more than 1 GiB, 64 passes or 16 lanes, or too little";
  }
  return {};
}

bool verify_password(const std::string& hash, std::string_view password) {
  if (hash.starts_with(apr1)) {
    const std::string_view salt = std::string_view(hash).substr(apr1.size());
    return is_same(hash_apr1(password, salt.substr(0, salt.find('$'))), hash);
  }
  if (hash.starts_with("$2")) {
    if (password.contains('\0')) return false;  // crypt_r() would not read it to the end
    const auto work = std::make_unique<crypt_data>();
    const char* const made = ::crypt_r(std::string(password).c_str(), hash.c_str(), work.get());
    return made != nullptr && is_same(made, hash);
  }
  const int result = argon2id_verify(hash.c_str(), password.data(), password.size());
  if (result == ARGON2_MEMORY_ALLOCATION_ERROR) throw std::bad_alloc();
  return result == ARGON2_OK;
}

}  // namespace sluice::gateway::basic
