#include "app/suite/variables.h"

#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>
#include <re2/re2.h>

namespace sluice::app::suite {
namespace {

constexpr std::string_view environment = "env.";

bool is_name(std::string_view text) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  const auto inner = [&](char c) { return letter(c) || (c >= '0' && c <= '9') || c == '.' || c == '-'; };
  return !text.empty() && letter(text[0]) && std::ranges::all_of(text, inner);
}

std::string quote_pattern(std::string_view value) { return re2::RE2::QuoteMeta({value.data(), value.size()}); }

}  // namespace

std::optional<Json> Variables::find(std::string_view name) const {
  if (name.starts_with(environment)) {
    const char* const value = std::getenv(std::string(name.substr(environment.size())).c_str());
    return value == nullptr ? std::nullopt : std::optional(Json::string(value));
  }
  const auto found = values.find(name);
  return found == values.end() ? std::nullopt : std::optional(found->second);
}

std::expected<std::vector<Piece>, PieceError> split_variables(std::string_view text) {
  std::vector<Piece> pieces;
  std::string literal;
  std::size_t literal_at = 0;
  const auto end_literal = [&](std::size_t next) {
    if (!literal.empty()) pieces.push_back({false, std::move(literal), {}, literal_at});
    literal.clear();
    literal_at = next;
  };
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t dollar = text.find("${", at);
    if (dollar == text.npos) {
      literal += text.substr(at);
      break;
    }
    if (dollar > at && text[dollar - 1] == '$') {
      literal += text.substr(at, dollar - 1 - at);
      literal += "${";
      at = dollar + 2;
      continue;
    }
    literal += text.substr(at, dollar - at);
    const std::size_t end = text.find('}', dollar);
    const std::string_view inside = text.substr(dollar + 2, end == text.npos ? 0 : end - dollar - 2);
    const std::size_t colon = inside.find(":-");
    const std::string_view name = inside.substr(0, colon);
    if (end == text.npos || !is_name(name)) {
      return std::unexpected(PieceError{
          dollar, "${ must be followed by a name and }, as in ${id} or ${env.NAME}; $${ stands for ${ itself"});
    }
    end_literal(end + 1);
    Piece piece{.is_variable = true, .text = std::string(name), .standard = {}, .offset = dollar};
    if (colon != inside.npos) {
      if (!name.starts_with(environment)) {
        return std::unexpected(
            PieceError{dollar, "only the environment's variables have a default: ${env.NAME:-default}"});
      }
      piece.standard = inside.substr(colon + 2);
    }
    pieces.push_back(std::move(piece));
    at = end + 1;
  }
  end_literal(text.size());
  return pieces;
}

std::string text_of(const Json& value) { return value.kind == Json::Kind::string ? value.text : print_json(value); }

namespace {

std::expected<Json, std::string> value_of(const Piece& piece, const Variables& variables) {
  auto value = variables.find(piece.text);
  if (value && !(piece.standard && value->text.empty())) return std::move(*value);
  if (piece.standard) return Json::string(*piece.standard);
  return std::unexpected(fmt::format("${{{}}} has no value: {}", piece.text,
                                     piece.text.starts_with(environment) ? "the environment variable is not set"
                                                                         : "the step that sets it has failed"));
}

}  // namespace

std::expected<std::string, std::string> expand(std::string_view text, const Variables& variables, Quote quote) {
  const auto pieces = split_variables(text);
  if (!pieces) return std::unexpected(pieces.error().message);
  std::string result;
  for (const Piece& piece : *pieces) {
    if (!piece.is_variable) {
      result += piece.text;
      continue;
    }
    const auto value = value_of(piece, variables);
    if (!value) return std::unexpected(value.error());
    // A variable that is the whole text is not escaped, because it may be a whole URL, such as a Location to follow.
    const std::string plain = text_of(*value);
    result += quote != nullptr && pieces->size() > 1 ? quote(plain) : plain;
  }
  return result;
}

std::expected<Json, std::string> expand(const Json& value, const Variables& variables) {
  Json result = value;
  if (value.kind == Json::Kind::string) {
    const auto pieces = split_variables(value.text);
    if (pieces && pieces->size() == 1 && pieces->front().is_variable) return value_of(pieces->front(), variables);
  }
  if (value.kind == Json::Kind::string || value.kind == Json::Kind::marker) {
    const bool is_pattern = value.kind == Json::Kind::marker && value.text.starts_with("#matches ");
    auto text = expand(value.text, variables, is_pattern ? quote_pattern : nullptr);
    if (!text) return std::unexpected(std::move(text.error()));
    result.text = std::move(*text);
  }
  for (Json& item : result.items) {
    auto expanded = expand(item, variables);
    if (!expanded) return expanded;
    item = std::move(*expanded);
  }
  for (auto& [name, member] : result.members) {
    auto expanded = expand(member, variables);
    if (!expanded) return expanded;
    member = std::move(*expanded);
  }
  return result;
}

}  // namespace sluice::app::suite
