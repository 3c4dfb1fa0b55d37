#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "http/exchange.h"
#include "http/router.h"

namespace sluice::gateway {

// A field value with placeholders for parts of a request: "user {claim.sub} from {client.ip}". `{{` stands for `{`.
class Template {
 public:
  enum class Source : std::uint8_t { text, claim, path, request_id, client_ip };

  // An error says what is wrong with the text.
  [[nodiscard]] static std::expected<Template, std::string> parse(std::string_view text);

  // Tells which values of the path {path.NAME} stands for in requests of this route. Called before they arrive.
  void used_by(std::uint16_t route, const http::Pattern& pattern);

  [[nodiscard]] bool uses(Source source) const;
  // The names that {path.NAME} has.
  [[nodiscard]] std::vector<std::string> path_names() const;
  // The value, if it does not depend on the request.
  [[nodiscard]] std::optional<std::string_view> constant() const;
  // Appends the value. A placeholder without a value in the request becomes empty. Returns false if a value has a
  // control character, because a line break could start another field.
  [[nodiscard]] bool append(std::string& out, const http::Exchange& exchange) const;

 private:
  static constexpr std::uint8_t no_value = 0xff;

  struct Part {
    Source source;
    std::string text;                       // or the path of the claim, or the name of the value
    std::vector<std::uint8_t> values = {};  // by route: the index in Request::path_values; no_value: none
  };

  std::vector<Part> parts_;
};

}  // namespace sluice::gateway
