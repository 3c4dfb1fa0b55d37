#include "app/redaction.h"

#include <algorithm>
#include <array>

#include "app/log_text.h"
#include "base/hex.h"

namespace sluice::app {
namespace {

// Parts of names.
constexpr std::array<std::string_view, 12> telling = {"authorization", "cookie",  "token",     "secret",
                                                      "password",      "passwd",  "apikey",    "api-key",
                                                      "api_key",       "session", "signature", "credential"};
// Headers whose values are addresses, with credentials and query strings of their own.
constexpr std::array<std::string_view, 6> addresses = {"referer",        "referrer",      "x-original-url",
                                                       "x-original-uri", "x-rewrite-url", "x-forwarded-uri"};

// Words of names: "x-auth-key", "private_key".
constexpr std::array<std::string_view, 7> telling_words = {"auth",       "jwt",      "key", "pass",
                                                           "passphrase", "passcode", "pwd"};
// Whole names.
constexpr std::array<std::string_view, 2> known = {"code", "sig"};

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c | 0x20);
  }
  return result;
}

// "pass%77ord" is "password" to whoever reads it.
std::string decoded(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool escape =
        text[i] == '%' && i + 2 < text.size() && hex_digit(text[i + 1]) >= 0 && hex_digit(text[i + 2]) >= 0;
    result += escape ? static_cast<char>(hex_digit(text[i + 1]) << 4 | hex_digit(text[i + 2])) : text[i];
    if (escape) i += 2;
  }
  return result;
}

bool has_telling_word(std::string_view name) {
  for (;;) {
    const auto end = name.find_first_of("-_.");
    if (std::ranges::find(telling_words, name.substr(0, end)) != telling_words.end()) return true;
    if (end == name.npos) return false;
    name.remove_prefix(end + 1);
  }
}

}  // namespace

Redaction::Redaction(std::span<const std::string> more) {
  for (const std::string& name : more) more_.push_back(lower(name));
}

bool Redaction::hides(std::string_view name) const {
  const std::string small = lower(name);
  return std::ranges::any_of(telling, [&](std::string_view part) { return small.contains(part); }) ||
         has_telling_word(small) || std::ranges::find(known, small) != known.end() ||
         std::ranges::find(more_, small) != more_.end();
}

void Redaction::append_query(std::string& out, std::string_view query) const { append_pairs(out, query, "&"); }

void Redaction::append_address(std::string& out, std::string_view address) const {
  // Of "//user:password@host"; "/a//b@c" is a path.
  const auto slashes = address.find("//");
  const bool has_host = slashes == 0 || (slashes != address.npos && address[slashes - 1] == ':');
  if (has_host) {
    const std::string_view host = address.substr(slashes + 2, address.find_first_of("/?#", slashes + 2) - slashes - 2);
    if (const auto at = host.rfind('@'); at != host.npos) {
      out += address.substr(0, slashes + 2);
      out += hidden;
      address.remove_prefix(slashes + 2 + at);
    }
  }
  const auto query = address.find_first_of("?#");
  out += address.substr(0, query == address.npos ? query : query + 1);
  if (query != address.npos) append_pairs(out, address.substr(query + 1), "&?#");
}

void Redaction::append_pairs(std::string& out, std::string_view pairs, std::string_view separators) const {
  for (;;) {
    const auto end = std::min(pairs.find_first_of(separators), pairs.size());
    const std::string_view pair = pairs.substr(0, end);
    const auto equals = pair.find('=');
    if (equals != pair.npos && hides(decoded(pair.substr(0, equals)))) {
      out += pair.substr(0, equals + 1);
      out += hidden;
    } else {
      out += pair;
    }
    if (end == pairs.size()) return;
    out += pairs[end];
    pairs.remove_prefix(end + 1);
  }
}

void Redaction::append_fields(std::string& out, std::span<const http::Field> fields) const {
  out += '{';
  bool first = true;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const auto same = [&](const http::Field& other) { return http::same_name(other.name, fields[i].name); };
    if (std::ranges::any_of(fields.first(i), same)) continue;
    if (!first) out += ',';
    first = false;
    append_log_string(out, lower(fields[i].name));
    out += ':';
    const bool hide = hides(fields[i].name);
    const bool is_address = std::ranges::find(addresses, lower(fields[i].name)) != addresses.end();
    const bool several = std::ranges::any_of(fields.subspan(i + 1), same);
    if (several) out += '[';
    for (std::size_t j = i; j < fields.size(); ++j) {
      if (!same(fields[j])) continue;
      if (j != i) out += ',';
      if (hide || !is_address) {
        append_log_string(out, hide ? hidden : fields[j].value);
        continue;
      }
      std::string address;
      append_address(address, fields[j].value);
      append_log_string(out, address);
    }
    if (several) out += ']';
  }
  out += '}';
}

}  // namespace sluice::app
