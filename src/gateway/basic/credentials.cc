#include "gateway/basic/credentials.h"

#include <algorithm>

#include "base/base64url.h"
#include "http/fields.h"

namespace sluice::gateway::basic {
namespace {

bool decode_base64(std::string_view text, std::string& out) {
  if (text.size() % 4 != 0) return false;
  for (int padding = 0; padding < 2 && text.ends_with('='); ++padding) text.remove_suffix(1);
  if (text.find_first_of("-_=") != text.npos) return false;
  std::string url(text);
  std::ranges::replace(url, '+', '-');
  std::ranges::replace(url, '/', '_');
  return decode_base64url(url, out);
}

}  // namespace

std::optional<Credentials> parse_credentials(std::string_view authorization, std::string& decoded) {
  const std::size_t space = authorization.find(' ');
  if (space == authorization.npos || !http::same_name(authorization.substr(0, space), "basic")) return std::nullopt;
  const std::size_t begin = authorization.find_first_not_of(' ', space);
  if (begin == authorization.npos || !decode_base64(authorization.substr(begin), decoded)) return std::nullopt;
  const std::string_view text = decoded;
  const std::size_t colon = text.find(':');
  const bool has_control =
      std::ranges::any_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
  if (colon == text.npos || colon == 0 || has_control) return std::nullopt;
  return Credentials{.user = text.substr(0, colon), .password = text.substr(colon + 1)};
}

}  // namespace sluice::gateway::basic
