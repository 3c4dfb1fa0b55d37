#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "http/exchange.h"

namespace sluice::gateway::headers {

// A field value with placeholders for parts of a request: "user {claim.sub} from {client.ip}". `{{` stands for `{`.
class Template {
 public:
  enum class Source : std::uint8_t { text, claim, request_id, client_ip };

  // An error says what is wrong with the text.
  [[nodiscard]] static std::expected<Template, std::string> parse(std::string_view text);

  [[nodiscard]] bool uses(Source source) const;
  // The value, if it does not depend on the request.
  [[nodiscard]] std::optional<std::string_view> constant() const;
  // Appends the value. A placeholder without a value in the request becomes empty. Returns false if a value has a
  // control character, because a line break could start another field.
  [[nodiscard]] bool append(std::string& out, const http::Exchange& exchange) const;

 private:
  struct Part {
    Source source;
    std::string text;  // or the path of the claim
  };

  std::vector<Part> parts_;
};

}  // namespace sluice::gateway::headers
