#include "json_text.h"

#include <charconv>
#include <string_view>

#include <fmt/format.h>

namespace case_study {
namespace {

bool needs_escape(char c) { return c == '"' || c == '\\' || static_cast<unsigned char>(c) < 0x20; }

// Appends each run of characters that need no escape at once.
void append_string(std::string& out, std::string_view text) {
  out += '"';
  std::size_t done = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (!needs_escape(text[at])) continue;
    out.append(text, done, at - done);
    if (text[at] == '"' || text[at] == '\\') {
      out += '\\';
      out += text[at];
    } else {
      out += fmt::format("\\u{:04x}", static_cast<int>(text[at]));
    }
    done = at + 1;
  }
  out.append(text, done);
  out += '"';
}

// `key` includes its quotes, its colon, and the comma before it.
void append_field(std::string& out, std::string_view key, std::string_view value) {
  out += key;
  append_string(out, value);
}

}  // namespace

void append_json(std::string& out, const User& user) {
  char digits[20];
  out += "{\"id\":";
  out.append(digits, std::to_chars(digits, digits + sizeof digits, user.id).ptr);
  append_field(out, ",\"name\":", user.name);
  append_field(out, ",\"email\":", user.email);
  append_field(out, ",\"title\":", user.title);
  append_field(out, ",\"department\":", user.department);
  out += ",\"roles\":";
  char before = '[';
  for (const std::string& role : user.roles) {
    out += before;
    append_string(out, role);
    before = ',';
  }
  out += user.roles.empty() ? "[]" : "]";
  out += user.active ? ",\"active\":true" : ",\"active\":false";
  append_field(out, ",\"created_at\":", user.created_at);
  append_field(out, ",\"updated_at\":", user.updated_at);
  append_field(out, ",\"address\":{\"street\":", user.address.street);
  append_field(out, ",\"city\":", user.address.city);
  append_field(out, ",\"postcode\":", user.address.postcode);
  append_field(out, ",\"country\":", user.address.country);
  out += "},\"settings\":";
  before = '{';
  for (const auto& [key, value] : user.settings) {
    out += before;
    append_string(out, key);
    out += ':';
    append_string(out, value);
    before = ',';
  }
  out += user.settings.empty() ? "{}" : "}";
  append_field(out, ",\"about\":", user.about);
  out += '}';
}

}  // namespace case_study
