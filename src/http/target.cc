#include "http/target.h"

#include <algorithm>

#include "base/ascii.h"
#include "base/hex.h"
#include "http/h1/scan.h"

namespace sluice::http {
namespace {

// Digits only and at most 65535; may be empty (RFC 3986, 3.2.3).
bool is_port(const char* p, const char* end) {
  unsigned port = 0;
  for (; p != end; ++p) {
    if (!is_digit(*p)) return false;
    port = port * 10 + static_cast<unsigned>(*p - '0');
    if (port > 65535) return false;
  }
  return true;
}

// reg-name (RFC 3986, 3.2.2): unreserved, sub-delims. Includes IPv4 addresses. An escape, an empty label, "," and ";"
// are refused: routes and the servers behind them may read them differently, for example as a list of hosts.
bool is_registered_name(std::string_view name) {
  return !name.contains("..") && std::ranges::all_of(name, [](char c) {
    return !h1::EndsPlainName::test(&c) || std::string_view("_~!$&'()*+=").contains(c);
  });
}

// Whether the text between the brackets of an IP literal is an IPv6 address with a valid number of groups, or
// IPvFuture.
bool is_ip_literal(std::string_view text) {
  if (!text.empty() && (text[0] | 0x20) == 'v') {
    const std::size_t dot = text.find('.');
    if (dot == std::string_view::npos || dot < 2 || dot + 1 == text.size()) return false;
    for (char c : text.substr(1, dot - 1)) {
      if (hex_digit(c) < 0) return false;
    }
    const std::string_view rest = text.substr(dot + 1);
    return std::ranges::all_of(rest, [](char c) { return c == ':' || is_registered_name({&c, 1}); });
  }
  int groups = 0;
  bool compressed = false;
  std::size_t i = 0;
  if (text.starts_with("::")) {
    compressed = true;
    i = 2;
    if (i == text.size()) return true;
  }
  for (;;) {
    const std::size_t begin = i;
    while (i < text.size() && hex_digit(text[i]) >= 0) ++i;
    if (i < text.size() && text[i] == '.') {  // the last 32 bits, written as IPv4
      i = begin;
      for (int part = 0; part < 4; ++part) {
        if (part > 0 && (i == text.size() || text[i++] != '.')) return false;
        const std::size_t first = i;
        int value = 0;
        while (i < text.size() && is_digit(text[i]) && i - first < 3) value = value * 10 + (text[i++] - '0');
        if (i == first || value > 255 || (text[first] == '0' && i - first > 1)) return false;
      }
      groups += 2;
      if (i != text.size()) return false;
      break;
    }
    if (i == begin || i - begin > 4) return false;
    ++groups;
    if (i == text.size()) break;
    if (text[i++] != ':') return false;
    if (i < text.size() && text[i] == ':') {
      if (compressed) return false;
      compressed = true;
      if (++i == text.size()) break;
    }
  }
  return compressed ? groups < 8 : groups == 8;
}

}  // namespace

bool is_authority(std::string_view text, PortIs port_is) {
  std::size_t host_end;
  if (text.starts_with('[')) {
    const std::size_t bracket = text.find(']');
    if (bracket == std::string_view::npos || !is_ip_literal(text.substr(1, bracket - 1))) return false;
    host_end = bracket + 1;
  } else {
    host_end = std::min(text.find(':'), text.size());
    if (host_end == 0 || text[0] == '.' || !is_registered_name(text.substr(0, host_end))) return false;
  }
  if (host_end == text.size()) return port_is == PortIs::optional;
  if (text[host_end] != ':') return false;
  if (port_is == PortIs::required && host_end + 1 == text.size()) return false;
  return is_port(text.data() + host_end + 1, text.data() + text.size());
}

std::string_view normal_host(std::string_view authority, std::span<char, max_host_size> space) {
  std::string_view host = authority;
  if (host.starts_with('[')) {
    host = host.substr(1, host.find(']') - 1);
  } else {
    host = host.substr(0, host.find(':'));
    if (host.ends_with('.')) host.remove_suffix(1);
  }
  if (host.size() > space.size()) return {};
  std::ranges::transform(host, space.begin(), [](char c) { return to_lower(c); });
  return {space.data(), host.size()};
}

// Takes linear time: each byte is written once and removed by ".." at most once.
DecodedPath decode_path(std::string_view raw, char* out) {
  std::size_t size = 0;
  bool slashes = false;
  bool merged = false;
  out[size++] = '/';
  std::size_t segment = size;  // where the current segment begins; out[segment - 1] is '/'
  for (std::size_t i = 1;; ++i) {
    if (i == raw.size() || raw[i] == '/') {
      const std::string_view text{out + segment, size - segment};
      if (text == ".") {
        size = segment;
      } else if (text == "..") {
        if (segment == 1) return {DecodedPath::Fault::above_root};
        size = segment - 1;
        while (out[size - 1] != '/') --size;
      } else if (i != raw.size()) {
        if (text.empty()) {
          merged = true;
        } else {
          out[size++] = '/';
        }
      }
      if (i == raw.size()) break;
      segment = size;
    } else if (raw[i] == '%') {
      if (raw.size() - i < 3) return {DecodedPath::Fault::bad_escape};
      const int high = hex_digit(raw[i + 1]);
      const int low = hex_digit(raw[i + 2]);
      if (high < 0 || low < 0) return {DecodedPath::Fault::bad_escape};
      const char byte = static_cast<char>(high << 4 | low);
      i += 2;
      if (byte == '\0') return {DecodedPath::Fault::nul};
      if (byte == '/') [[unlikely]] {
        slashes = true;
        out[size++] = '\0';
      } else {
        out[size++] = byte;
      }
    } else if (h1::is_refused_in_path(raw[i])) {
      return {DecodedPath::Fault::bad_character};
    } else {
      out[size++] = raw[i];
    }
  }
  return {DecodedPath::Fault::none, size, slashes, merged};
}

bool has_dot_segment(std::string_view target) {
  std::size_t dots = 0;
  bool others = false;
  const auto is_dots = [&] { return !others && (dots == 1 || dots == 2); };
  target = target.substr(0, target.find_first_of("?#"));
  for (std::size_t i = 0; i < target.size(); ++i) {
    char c = target[i];
    if (c == '%' && target.size() - i >= 3 && hex_digit(target[i + 1]) >= 0 && hex_digit(target[i + 2]) >= 0) {
      c = static_cast<char>(hex_digit(target[i + 1]) << 4 | hex_digit(target[i + 2]));
      i += 2;
    }
    if (c == '/') {
      if (is_dots()) return true;
      dots = 0;
      others = false;
    } else if (c == '.') {
      ++dots;
    } else {
      others = true;
    }
  }
  return is_dots();
}

void append_escaped(std::string& out, std::string_view text, std::string_view keep) {
  constexpr std::string_view digits = "0123456789ABCDEF";
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                       c == '.' || c == '_' || c == '~' || keep.contains(c);
    if (plain) {
      out += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      out += '%';
      out += digits[byte >> 4];
      out += digits[byte & 15];
    }
  }
}

void append_path(std::string& out, std::string_view segments) {
  // Besides unreserved characters, these are not escaped: '/' and the other characters of a segment (RFC 3986, 3.3).
  constexpr std::string_view kept = "/!$&'()*+,;=:@";
  for (;;) {
    const std::size_t slash = std::min(segments.find('\0'), segments.size());
    append_escaped(out, segments.substr(0, slash), kept);
    if (slash == segments.size()) return;
    out += "%2F";
    segments.remove_prefix(slash + 1);
  }
}

}  // namespace sluice::http
