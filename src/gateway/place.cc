#include "gateway/place.h"

#include <algorithm>

#include "base/ascii.h"
#include "base/hex.h"

namespace sluice::gateway {
namespace {

using Count = FoundCredential::Count;
using In = Place::In;

// Decodes a form-encoded value. Returns false if an escape is invalid.
bool decode(std::string_view text, std::string& out) {
  out.clear();
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i] == '+' ? ' ' : text[i];
      continue;
    }
    const int high = i + 2 < text.size() ? hex_digit(text[i + 1]) : -1;
    const int low = i + 2 < text.size() ? hex_digit(text[i + 2]) : -1;
    if (high < 0 || low < 0) return false;
    out += static_cast<char>(high << 4 | low);
    i += 2;
  }
  return true;
}

struct Pair {
  std::string_view whole;
  std::string_view name;
  std::string_view value;
};

Pair next_pair(std::string_view& list, char separator) {
  const std::string_view whole = list.substr(0, list.find(separator));
  list.remove_prefix(std::min(whole.size() + 1, list.size()));
  const std::string_view pair = separator == ';' ? trim_blanks(whole) : whole;
  const auto equals = std::min(pair.find('='), pair.size());
  return {whole, pair.substr(0, equals), pair.substr(std::min(equals + 1, pair.size()))};
}

bool is_parameter(const Pair& pair, std::string_view name, std::string& scratch) {
  if (!pair.name.contains('%') && !pair.name.contains('+')) return pair.name == name;
  return decode(pair.name, scratch) && scratch == name;
}

void add(FoundCredential& found, std::string_view text) {
  if (found.count == Count::none) {
    found = {Count::one, text};
  } else {
    found.count = found.count != Count::several && found.text == text ? Count::repeated : Count::several;
  }
}

// Printable ASCII without spaces.
bool is_parameter_name(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c > 0x20 && c <= 0x7e; });
}

}  // namespace

std::optional<Place> Place::parse(std::string_view text) {
  const auto dot = text.find('.');
  if (dot == text.npos) return std::nullopt;
  const std::string_view in = text.substr(0, dot);
  const std::string_view name = text.substr(dot + 1);
  if (in == "query" && is_parameter_name(name)) return Place{In::query, std::string(name)};
  if (in == "header" && http::is_token(name)) return Place{In::header, std::string(name)};
  if (in == "cookie" && http::is_token(name)) return Place{In::cookie, std::string(name)};
  return std::nullopt;
}

bool Place::operator==(const Place& other) const {
  return in == other.in && (in == In::header ? http::same_name(name, other.name) : name == other.name);
}

FoundCredential find_credential(const Place& place, const http::Request& request, std::string& scratch) {
  FoundCredential found;
  if (place.in == In::query) {
    for (std::string_view rest = request.query; !rest.empty();) {
      const Pair pair = next_pair(rest, '&');
      if (is_parameter(pair, place.name, scratch)) add(found, pair.value);
    }
    if (found.count == Count::none) return found;
    found.text = decode(found.text, scratch) ? std::string_view(scratch) : std::string_view{};
    return found;
  }
  for (const http::Field& field : request.fields) {
    if (place.in == In::header) {
      if (http::same_name(field.name, place.name)) add(found, field.value);
      continue;
    }
    if (!http::same_name(field.name, "cookie")) continue;
    for (std::string_view rest = field.value; !rest.empty();) {
      const Pair pair = next_pair(rest, ';');
      if (pair.name != place.name) continue;
      const bool quoted = pair.value.size() >= 2 && pair.value.front() == '"' && pair.value.back() == '"';
      add(found, quoted ? pair.value.substr(1, pair.value.size() - 2) : pair.value);
    }
  }
  return found;
}

void hide_credential(const Place& place, bool pass, http::Exchange& exchange, ChangedRequests& changes) {
  http::Request& request = exchange.request;
  const auto is_hidden = [&](const http::Field& field) {
    return place.is_field(field.name) && !(pass && http::same_name(field.name, place.name));
  };
  if (place.in == In::header) {
    if (std::ranges::none_of(request.fields, is_hidden)) return;
    ChangedRequest& changed = changes.take(exchange);
    for (const http::Field& field : request.fields) {
      if (!is_hidden(field)) changed.keep(request, field, field.value);
    }
    changed.apply(request);
    return;
  }
  std::string decoded;
  if (pass || find_credential(place, request, decoded).count == Count::none) return;
  ChangedRequest& changed = changes.take(exchange);
  if (place.in == In::query) {
    ChangedQuery query(request, changed.text);
    std::string scratch;
    for (std::string_view rest = request.query; !rest.empty();) {
      const Pair pair = next_pair(rest, '&');
      if (is_parameter(pair, place.name, scratch)) continue;
      query.begin();
      changed.text += pair.whole;
    }
    query.apply();
    return;
  }
  std::size_t room = 0;
  for (const http::Field& field : request.fields) room += field.value.size();
  changed.text.reserve(room);  // so that views into it stay valid
  for (const http::Field& field : request.fields) {
    if (!http::same_name(field.name, "cookie")) {
      changed.keep(request, field, field.value);
      continue;
    }
    const std::size_t begin = changed.text.size();
    for (std::string_view rest = field.value; !rest.empty();) {
      const Pair pair = next_pair(rest, ';');
      if (pair.name == place.name) continue;
      if (changed.text.size() != begin) changed.text += "; ";
      changed.text += trim_blanks(pair.whole);
    }
    if (changed.text.size() != begin) changed.keep(request, field, std::string_view(changed.text).substr(begin));
  }
  changed.apply(request);
}

}  // namespace sluice::gateway
