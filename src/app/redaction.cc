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
// Whole names.
constexpr std::array<std::string_view, 6> known = {"key", "code", "sig", "pwd", "auth", "jwt"};

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

}  // namespace

Redaction::Redaction(std::span<const std::string> more) {
  for (const std::string& name : more) more_.push_back(lower(name));
}

bool Redaction::hides(std::string_view name) const {
  const std::string small = lower(name);
  return std::ranges::any_of(telling, [&](std::string_view part) { return small.contains(part); }) ||
         std::ranges::find(known, small) != known.end() || std::ranges::find(more_, small) != more_.end();
}

void Redaction::append_query(std::string& out, std::string_view query) const {
  for (bool first = true; first || !query.empty(); first = false) {
    const auto end = std::min(query.find('&'), query.size());
    const std::string_view pair = query.substr(0, end);
    const auto equals = pair.find('=');
    if (!first) out += '&';
    if (equals != pair.npos && hides(decoded(pair.substr(0, equals)))) {
      out += pair.substr(0, equals + 1);
      out += hidden;
    } else {
      out += pair;
    }
    if (end == query.size()) return;
    query.remove_prefix(end + 1);
    if (query.empty()) {
      out += '&';
      return;
    }
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
    const bool several = std::ranges::any_of(fields.subspan(i + 1), same);
    if (several) out += '[';
    for (std::size_t j = i; j < fields.size(); ++j) {
      if (!same(fields[j])) continue;
      if (j != i) out += ',';
      append_log_string(out, hide ? hidden : fields[j].value);
    }
    if (several) out += ']';
  }
  out += '}';
}

}  // namespace sluice::app
