#include "base/credentials.h"

#include <algorithm>
#include <array>

#include "base/ascii.h"
#include "base/hex.h"

namespace sluice {
namespace {

constexpr std::array<std::string_view, 18> parts = {
    "authorization", "cookie",     "token",     "secret",  "password",  "passwd",
    "apikey",        "api-key",    "api_key",   "session", "signature", "credential",
    "accesskey",     "privatekey", "assertion", "saml",    "csrf",      "websocket-protocol"};
constexpr std::array<std::string_view, 13> words = {"auth",     "bearer", "jwt", "key", "otp", "pass",  "passphrase",
                                                    "passcode", "pin",    "pw",  "pwd", "sid", "ticket"};
constexpr std::array<std::string_view, 2> names = {"code", "sig"};

bool has_word(std::string_view name) {
  for (;;) {
    const auto end = name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789");
    if (std::ranges::find(words, name.substr(0, end)) != words.end()) return true;
    if (end == name.npos) return false;
    name.remove_prefix(end + 1);
  }
}

}  // namespace

std::string comparable_name(std::string_view name) {
  std::string result;
  for (std::size_t i = 0; i < name.size(); ++i) {
    char c = name[i];
    if (c == '%' && i + 2 < name.size() && hex_digit(name[i + 1]) >= 0 && hex_digit(name[i + 2]) >= 0) {
      c = static_cast<char>(hex_digit(name[i + 1]) << 4 | hex_digit(name[i + 2]));
      i += 2;
    }
    result += to_lower(c);
  }
  return result;
}

bool names_credential(std::string_view name) {
  const std::string small = comparable_name(name);
  return std::ranges::any_of(parts, [&](std::string_view part) { return small.contains(part); }) || has_word(small) ||
         std::ranges::find(names, small) != names.end();
}

}  // namespace sluice
