#include "base/host.h"

#include <algorithm>

#include "base/ascii.h"

namespace sluice {

std::string check_host(std::string_view text) {
  constexpr const char* wanted = "must be a host, as \"api.example.com\" or \"*.example.com\" is, without a port";
  const bool is_domain = text.starts_with("*.");
  if (is_domain) text.remove_prefix(2);
  if (text.empty() || text.size() > 253 || text.starts_with('.') || text.ends_with('.') || text.contains("..")) {
    return wanted;
  }
  if (std::ranges::any_of(text, [](char c) { return c >= 'A' && c <= 'Z'; })) return "must be in lower case";
  const auto is_of_name = [](char c) { return is_letter(c) || is_digit(c) || c == '-' || c == '_' || c == '.'; };
  if (std::ranges::all_of(text, is_of_name)) return {};
  // An IPv6 address without brackets.
  const bool is_ip = !is_domain && text.contains("::") && text.find_first_not_of("0123456789abcdef:.") == text.npos;
  return is_ip ? "" : wanted;
}

}  // namespace sluice
