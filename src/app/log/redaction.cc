#include "app/log/redaction.h"

#include <algorithm>
#include <utility>

#include "app/log/log_text.h"
#include "base/ascii.h"
#include "base/credentials.h"
#include "base/hex.h"

namespace sluice::app {
namespace {

// A character of an address. It may be escaped several times: '@' is "%40" or "%2540".
struct Character {
  char value;
  std::size_t size;  // as written
};
Character character_at(std::string_view text, std::size_t at) {
  const auto is_escape = [&](std::size_t i) {
    return i + 1 < text.size() && hex_digit(text[i]) >= 0 && hex_digit(text[i + 1]) >= 0;
  };
  if (text[at] != '%' || !is_escape(at + 1)) return {text[at], 1};
  std::size_t digits = at + 1;
  while (text.substr(digits, 2) == "25" && is_escape(digits + 2)) digits += 2;
  return {static_cast<char>(hex_digit(text[digits]) << 4 | hex_digit(text[digits + 1])), digits + 2 - at};
}

// Returns the text with `hidden` in place of the user and password of each URL. If anything is replaced, `changed`
// holds the result.
std::string_view without_users(std::string_view text, std::string& changed) {
  if (!text.contains("//") && !text.contains('%')) return text;
  std::size_t copied = 0;
  char before = 0;
  char last = ':';
  for (std::size_t at = 0; at < text.size();) {
    const Character slash = character_at(text, at);
    at += slash.size;
    // Starts at "//user:password@host"; "/a//b@c" is a path.
    const bool begins = slash.value == '/' && last == '/' && (before == ':' || before == '=');
    before = std::exchange(last, slash.value);
    if (!begins) continue;
    std::size_t users = at;
    for (std::size_t end = at; end < text.size();) {
      const Character one = character_at(text, end);
      // A separator that is escaped more often than the slashes belongs to the name or the password.
      if (one.size <= slash.size && std::string_view("/?# ").contains(one.value)) break;
      if (one.value == '@') users = end;
      end += one.size;
    }
    if (users == at) continue;
    changed += text.substr(copied, at - copied);
    changed += Redaction::hidden;
    copied = at = users;
  }
  if (copied == 0) return text;
  return changed += text.substr(copied);
}

}  // namespace

Redaction::Redaction(std::span<const std::string> more) {
  for (const std::string& name : more) more_.push_back(comparable_name(name));
}

bool Redaction::hides(std::string_view name) const {
  const std::string plain = comparable_name(name);
  // A name that is escaped twice may be the name of a credential.
  for (auto at = plain.find('%'); at != plain.npos; at = plain.find('%', at + 1)) {
    if (character_at(plain, at).size > 1) return true;
  }
  return names_credential(name) || std::ranges::find(more_, plain) != more_.end();
}

void Redaction::append_address(std::string& out, std::string_view address) const {
  std::string changed;
  address = without_users(address, changed);
  const auto query = std::min(address.find_first_of("?#;"), address.size());
  out += address.substr(0, query);
  append_parameters(out, address.substr(query));
}

void Redaction::append_query(std::string& out, std::string_view query) const {
  std::string changed;
  append_parameters(out, without_users(query, changed));
}

// Names end with '=' or ':', or with a ';' that may be part of a parameter's name. A value may be a URL with its own
// query string, separators may be escaped, and some servers treat ';' as '&'. So a hidden value extends to the next '&'
// or '#', which no value contains unescaped.
void Redaction::append_parameters(std::string& out, std::string_view query) const {
  std::size_t name = 0;
  for (std::size_t at = 0; at < query.size();) {
    const auto [c, size] = character_at(query, at);
    if (std::string_view("=:;").contains(c) && hides(query.substr(name, at - name))) {
      out += query.substr(0, at + size);
      out += hidden;
      query.remove_prefix(std::min(query.find_first_of("&#", at), query.size()));
      at = name = 0;
      continue;
    }
    at += size;
    if (std::string_view("&?#;=:").contains(c)) name = at;
  }
  out += query;
}

void Redaction::append_fields(std::string& out, std::span<const http::Field> fields) const {
  out += '{';
  bool first = true;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const auto same = [&](const http::Field& other) { return http::same_name(other.name, fields[i].name); };
    if (std::ranges::any_of(fields.first(i), same)) continue;
    if (!first) out += ',';
    first = false;
    append_log_string(out, to_lower(fields[i].name));
    out += ':';
    const bool hide = hides(fields[i].name);
    const bool several = std::ranges::any_of(fields.subspan(i + 1), same);
    if (several) out += '[';
    for (std::size_t j = i; j < fields.size(); ++j) {
      if (!same(fields[j])) continue;
      if (j != i) out += ',';
      std::string value(hide ? hidden : "");
      if (!hide) append_address(value, fields[j].value);
      append_log_string(out, value);
    }
    if (several) out += ']';
  }
  out += '}';
}

}  // namespace sluice::app
