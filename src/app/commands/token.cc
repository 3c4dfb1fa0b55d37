#include "app/commands/token.h"

#include <algorithm>
#include <chrono>
#include <expected>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <simdjson.h>

#include "app/commands/exit_code.h"
#include "base/buffer.h"
#include "base/json.h"
#include "core/whole_file.h"
#include "gateway/jwt/signing_key.h"
#include "gateway/jwt/token.h"

namespace sluice::app {
namespace {

namespace jwt = gateway::jwt;

constexpr std::size_t largest_key_file = 1 << 20;

// Something is wrong with the command line or with a file.
struct TokenProblem {
  int exit_code;
  std::string text;
};

std::string json_string(std::string_view text) {
  Buffer escaped;
  append_json_escaped(escaped, text);
  return fmt::format("\"{}\"", escaped.view());
}

// The text as JSON: itself if it is JSON, and a string otherwise.
std::string json_value(std::string_view text) {
  simdjson::dom::parser parser;
  simdjson::dom::element value;
  if (parser.parse(text.data(), text.size()).get(value) != simdjson::SUCCESS) return json_string(text);
  return simdjson::minify(value);
}

// The claims of a token in their order.
class ClaimList {
 public:
  [[nodiscard]] bool has(std::string_view name) const { return find(name) != claims_.end(); }
  // Precondition: no claim has the name. `json`: the value.
  void add(std::string_view name, std::string json) { claims_.emplace_back(name, std::move(json)); }
  [[nodiscard]] std::string json() const {
    std::string text = "{";
    for (const auto& [name, value] : claims_) {
      text += (text.size() > 1 ? "," : "") + json_string(name) + ":" + value;
    }
    return text + "}";
  }

 private:
  using Claims = std::vector<std::pair<std::string, std::string>>;
  [[nodiscard]] Claims::const_iterator find(std::string_view name) const {
    return std::ranges::find(claims_, name, &Claims::value_type::first);
  }
  Claims claims_;
};

std::expected<std::string, TokenProblem> payload_of(const TokenCommand& command) {
  const std::int64_t now_s = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  ClaimList claims;
  const std::pair<std::string_view, const std::optional<std::string>*> options[] = {
      {"iss", &command.issuer}, {"sub", &command.subject}, {"aud", &command.audience}};
  for (const auto& [name, value] : options) {
    if (*value) claims.add(name, json_string(**value));
  }
  const std::string ends =
      std::to_string(now_s + std::chrono::duration_cast<std::chrono::seconds>(command.expires.value_or(1h)).count());
  if (command.expires) claims.add("exp", ends);
  for (const std::string_view claim : command.claims) {
    const std::size_t equals = claim.find('=');
    const std::string_view name = claim.substr(0, equals);
    if (claims.has(name)) {
      return std::unexpected(TokenProblem{exit_usage, fmt::format("the claim \"{}\" is given twice", name)});
    }
    claims.add(name, json_value(claim.substr(equals + 1)));
  }
  if (!claims.has("iat")) claims.add("iat", std::to_string(now_s));
  if (!claims.has("exp")) claims.add("exp", ends);
  return claims.json();
}

struct KeyNames {
  std::string id;
  std::optional<jwt::Algorithm> algorithm;
};

// The "kid" and the "alg" of the key in the set that `sluice keys` has written beside it: NAME.jwks.json beside
// NAME.key.pem. Nothing if there is no such file or if the key is not in it.
KeyNames names_beside(std::string_view path, const jwt::SigningKey& key) {
  constexpr std::string_view ending = ".key.pem";
  if (key.kind() == jwt::Key::Kind::secret || !path.ends_with(ending)) return {};
  path.remove_suffix(ending.size());
  const auto text = core::read_whole_file(std::string(path) + ".jwks.json", largest_key_file);
  simdjson::dom::parser parser;
  simdjson::dom::array keys;
  if (!text || parser.parse(*text)["keys"].get(keys) != simdjson::SUCCESS) return {};
  for (const simdjson::dom::element one : keys) {
    std::string_view value;  // the modulus, or the coordinate x
    const bool has_value = one["n"].get(value) == simdjson::SUCCESS || one["x"].get(value) == simdjson::SUCCESS;
    if (!has_value || !key.members().contains(fmt::format("\":\"{}\"", value))) continue;
    std::string_view id, algorithm;
    (void)one["kid"].get(id);
    (void)one["alg"].get(algorithm);
    return {std::string(id), jwt::parse_algorithm(algorithm)};
  }
  return {};
}

std::expected<std::string, TokenProblem> make_token(const TokenCommand& command) {
  const auto payload = payload_of(command);
  if (!payload) return std::unexpected(payload.error());
  const auto wrong = [&](const std::string& text) {
    return std::unexpected(TokenProblem{exit_failure, command.key + ": " + text});
  };
  const auto text = core::read_whole_file(command.key, largest_key_file);
  if (!text) return wrong(text.error());
  const auto key = jwt::SigningKey::parse(*text);
  if (!key) return wrong(key.error());
  const KeyNames beside = names_beside(command.key, *key);
  const auto algorithm = command.algorithm.value_or(beside.algorithm.value_or(key->default_algorithm()));
  if (const std::string misfit = key->check(algorithm); !misfit.empty()) return wrong(misfit);
  return key->sign(algorithm, command.id.empty() ? beside.id : command.id, *payload);
}

}  // namespace

int print_token(const TokenCommand& command, std::FILE* out, std::FILE* errors) {
  const auto token = make_token(command);
  if (!token) {
    fmt::print(errors, "sluice: {}\n", token.error().text);
    return token.error().exit_code;
  }
  fmt::print(out, "{}\n", *token);
  return exit_ok;
}

}  // namespace sluice::app
