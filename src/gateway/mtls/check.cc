#include <algorithm>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "base/ascii.h"
#include "gateway/mtls/options.h"
#include "gateway/policy_checks.h"

namespace sluice::gateway::mtls {

// Refuses the formats of `openssl x509 -subject`, which would match no certificate: "/O=Example/CN=ada" and
// "O = Example, CN = ada".
std::string Options::check_subject(std::string_view text) {
  const auto equals = text.find('=');
  const bool starts_with_type =
      equals != text.npos && equals != 0 && std::ranges::all_of(text.substr(0, equals), [](char c) {
        return is_letter(c) || is_digit(c) || c == '.' || c == '-';
      });
  if (!starts_with_type) return "must be a distinguished name, as \"CN=ada,O=Example\" is";
  for (std::size_t i = 0; i + 1 < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if ((text[i] == ',' || text[i] == '+' || text[i] == '=') && text[i + 1] == ' ') {
      return "must have no spaces around its parts, as in \"CN=ada,O=Example\"";
    }
  }
  return "";
}

std::string Options::check_san(std::string_view text) {
  if (std::ranges::any_of(text, [](char c) { return static_cast<unsigned char>(c) <= ' ' || c == 0x7f; }) ||
      text.empty()) {
    return "must have no spaces and must not be empty";
  }
  if (text.contains(':')) return "";  // a URI
  if (const auto at = text.rfind('@'); at != text.npos) {
    return at != 0 && at + 1 != text.size() ? "" : "must be an e-mail address, a host name or a URI";
  }
  const bool is_host = std::ranges::all_of(text.starts_with("*.") ? text.substr(2) : text, [](char c) {
    return is_letter(c) || is_digit(c) || c == '.' || c == '-' || c == '_';
  });
  return is_host ? "" : "must be a host name, in which only the first label may be \"*\", an e-mail address or a URI";
}

void Options::check(PolicyChecks& checks) const {
  if (checks.has_client_certificates()) return;
  checks.complain(
      checks.name.position,
      fmt::format("[policy.{}] admits nobody, because no client is asked for a certificate", checks.name.value),
      "add \"client_ca\" and client_auth = \"optional\" or \"require\" to [server.tls]");
}

}  // namespace sluice::gateway::mtls
