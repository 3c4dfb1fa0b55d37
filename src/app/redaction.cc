#include "app/redaction.h"

#include <algorithm>
#include <array>

#include "app/log_text.h"
#include "base/credentials.h"

namespace sluice::app {
namespace {

// Headers whose values are addresses, with credentials and query strings of their own.
constexpr std::array<std::string_view, 6> addresses = {"referer",        "referrer",      "x-original-url",
                                                       "x-original-uri", "x-rewrite-url", "x-forwarded-uri"};

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

void Redaction::append_target(std::string& out, std::string_view target) const {
  const auto query = std::min(target.find('?'), target.size());
  out += target.substr(0, query);
  append_query(out, target.substr(query));
}

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
  if (query != address.npos) append_query(out, address.substr(query + 1));
}

// A value may be a URL with a query string of its own, and some servers take ';' for '&'. What is hidden goes on to the
// next separator that no value holds.
void Redaction::append_query(std::string& out, std::string_view query) const {
  for (;;) {
    auto end = std::min(query.find_first_of("&?#;"), query.size());
    const std::string_view pair = query.substr(0, end);
    const auto equals = pair.find('=');
    if (equals != pair.npos && hides(pair.substr(0, equals))) {
      out += pair.substr(0, equals + 1);
      out += hidden;
      end = std::min(query.find_first_of("&#", equals), query.size());
    } else {
      out += pair;
    }
    if (end == query.size()) return;
    out += query[end];
    query.remove_prefix(end + 1);
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
