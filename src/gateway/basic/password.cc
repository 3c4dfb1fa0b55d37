#include "gateway/basic/password.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <new>
#include <optional>
#include <stdexcept>

#include <argon2.h>
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
  if (!rest.starts_with(begin)) return "must be a hash of argon2id: `sluice hash-password` prints one";
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
  const int result = argon2id_verify(hash.c_str(), password.data(), password.size());
  if (result == ARGON2_MEMORY_ALLOCATION_ERROR) throw std::bad_alloc();
  return result == ARGON2_OK;
}

}  // namespace sluice::gateway::basic
