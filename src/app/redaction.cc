#include "app/redaction.h"

#include <algorithm>
#include <utility>

#include "app/log_text.h"
#include "base/credentials.h"

namespace sluice::app {
namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c | 0x20);
  }
  return result;
}

}  // namespace

Redaction::Redaction(std::span<const std::string> more) {
  for (const std::string& name : more) more_.push_back(comparable_name(name));
}

bool Redaction::hides(std::string_view name) const {
  return names_credential(name) || std::ranges::find(more_, comparable_name(name)) != more_.end();
}

void Redaction::append_address(std::string& out, std::string_view address) const {
  std::string changed;
  // Of "//user:password@host"; "/a//b@c" is a path.
  for (auto slashes = address.find("//"); slashes != address.npos; slashes = address.find("//", slashes + 2)) {
    if (slashes != 0 && address[slashes - 1] != ':') continue;
    const std::string_view host = address.substr(slashes + 2, address.find_first_of("/?#", slashes + 2) - slashes - 2);
    const auto at = host.rfind('@');
    if (at == host.npos) continue;
    std::string without(address.substr(0, slashes + 2));
    without += hidden;
    without += address.substr(slashes + 2 + at);
    changed = std::move(without);
    address = changed;
  }
  const auto query = std::min(address.find_first_of("?#;"), address.size());
  out += address.substr(0, query);
  append_query(out, address.substr(query));
}

// Names end with '=' or ':'. A value may be a URL with a query string of its own, its separators may be escaped, and
// some servers take ';' for '&'. What is hidden goes on to the next separator that no value holds.
void Redaction::append_query(std::string& out, std::string_view query) const {
  std::size_t name = 0;
  for (std::size_t at = 0; at < query.size();) {
    const std::string_view next = query.substr(at, 3);
    const std::string decoded = comparable_name(next);
    const std::size_t size = decoded.size() == 1 ? next.size() : 1;  // "%3D" or "="
    const char c = decoded[0];
    if ((c == '=' || c == ':') && hides(query.substr(name, at - name))) {
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
    append_log_string(out, lower(fields[i].name));
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
