#include "gateway/template.h"

#include <algorithm>

#include "http/identity.h"
#include "http/request_id.h"

namespace sluice::gateway {
namespace {

bool is_control(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (byte < 0x20 && byte != '\t') || byte == 0x7f;
}

}  // namespace

std::expected<Template, std::string> Template::parse(std::string_view text) {
  Template made;
  std::string plain;
  const auto add = [&](Source source, std::string part) {
    if (!plain.empty()) made.parts_.push_back({Source::text, std::exchange(plain, {})});
    made.parts_.push_back({source, std::move(part)});
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (is_control(c)) return std::unexpected("must have no control characters");
    if ((c == '{' || c == '}') && text.substr(i + 1, 1) == text.substr(i, 1)) {
      plain += c;
      ++i;
    } else if (c == '{') {
      const auto end = text.find('}', i);
      if (end == text.npos) return std::unexpected("has a \"{\" without its \"}\"; a brace itself is \"{{\"");
      const std::string_view name = text.substr(i + 1, end - i - 1);
      if (name == "request.id") {
        add(Source::request_id, {});
      } else if (name == "client.ip") {
        add(Source::client_ip, {});
      } else if (name.starts_with("claim.") && name.size() > 6) {
        add(Source::claim, std::string(name.substr(6)));
      } else if (name.starts_with("path.") && name.size() > 5) {
        add(Source::path, std::string(name.substr(5)));
      } else {
        return std::unexpected(
            "has a place that nothing fills: there are {claim.NAME}, {path.NAME}, {request.id} and {client.ip}");
      }
      i = end;
    } else if (c == '}') {
      return std::unexpected("has a \"}\" without its \"{\"; a brace itself is \"}}\"");
    } else {
      plain += c;
    }
  }
  if (!plain.empty()) made.parts_.push_back({Source::text, std::move(plain)});
  return made;
}

void Template::used_by(std::uint16_t route, const http::Pattern& pattern) {
  const std::vector<std::string> names = pattern.names();
  for (Part& part : parts_) {
    if (part.source != Source::path) continue;
    if (part.values.size() <= route) part.values.resize(std::size_t{route} + 1, no_value);
    const auto found = std::ranges::find(names, part.text);
    part.values[route] = found != names.end() ? static_cast<std::uint8_t>(found - names.begin()) : no_value;
  }
}

bool Template::uses(Source source) const { return std::ranges::find(parts_, source, &Part::source) != parts_.end(); }

std::vector<std::string> Template::path_names() const {
  std::vector<std::string> names;
  for (const Part& part : parts_) {
    if (part.source == Source::path) names.push_back(part.text);
  }
  return names;
}

std::optional<std::string_view> Template::constant() const {
  if (parts_.empty()) return std::string_view{};
  if (parts_.size() == 1 && parts_[0].source == Source::text) return parts_[0].text;
  return std::nullopt;
}

bool Template::append(std::string& out, const http::Exchange& exchange) const {
  for (const Part& part : parts_) {
    std::string_view text = part.text;
    if (part.source == Source::request_id) {
      text = http::request_id_of(exchange);
    } else if (part.source == Source::client_ip) {
      text = exchange.request.peer;
    } else if (part.source == Source::path) {
      const http::Request& request = exchange.request;
      const std::uint8_t index = request.route < part.values.size() ? part.values[request.route] : no_value;
      text = index != no_value ? request.path_values[index] : std::string_view{};
    } else if (part.source == Source::claim) {
      const http::Claims* const claims = http::claims_of(exchange);
      const http::Claim* const claim = claims != nullptr ? claims->find(part.text) : nullptr;
      text = claim != nullptr && claim->kind != http::Claim::Kind::null ? claim->text : std::string_view{};
    }
    if (std::ranges::any_of(text, is_control)) return false;
    out += text;
  }
  return true;
}

}  // namespace sluice::gateway
