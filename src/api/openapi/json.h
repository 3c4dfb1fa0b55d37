#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace sluice::api::openapi {

// A JSON value, built once at start. An object keeps its members in order and does not check names for duplicates.
// Braces make an object, so an array is named: {{"type", "string"}, {"enum", Json::Array{"a", "b"}}}.
class Json {
 public:
  using Array = std::vector<Json>;
  using Member = std::pair<std::string, Json>;
  using Object = std::vector<Member>;
  // JSON text of one value, written unchanged.
  struct Raw {
    std::string text;
  };

  Json(std::nullptr_t) {}
  Json(std::initializer_list<Member> members) : value_(Object(members)) {}
  Json(Object object) : value_(std::move(object)) {}
  Json(Array array) : value_(std::move(array)) {}
  Json(Raw raw) : value_(std::move(raw)) {}
  Json(std::convertible_to<std::string_view> auto const& text) : value_(std::string(std::string_view(text))) {}
  template <std::integral Number>
  Json(Number number) : value_(static_cast<std::int64_t>(number)) {}
  Json(bool value) : value_(value) {}

  [[nodiscard]] std::string text() const;

 private:
  struct Writer;

  std::variant<std::nullptr_t, bool, std::int64_t, std::string, Raw, Array, Object> value_;
};

}  // namespace sluice::api::openapi
