#pragma once

#include <cstdint>
#include <string>
#include <string_view>

// JSON as it is put together once, at start: members in the order in which they are added.
namespace sluice::api::openapi {

// "text", quoted and escaped.
[[nodiscard]] std::string json_string(std::string_view text);

class JsonObject {
 public:
  // `json` is a whole value.
  JsonObject& add(std::string_view name, std::string_view json);
  JsonObject& add_text(std::string_view name, std::string_view text) { return add(name, json_string(text)); }
  [[nodiscard]] bool empty() const { return members_.empty(); }
  [[nodiscard]] std::string text() const { return "{" + members_ + "}"; }

 private:
  std::string members_;
};

class JsonArray {
 public:
  JsonArray& add(std::string_view json) {
    if (!items_.empty()) items_ += ',';
    items_ += json;
    return *this;
  }
  JsonArray& add_text(std::string_view text) { return add(json_string(text)); }
  [[nodiscard]] bool empty() const { return items_.empty(); }
  [[nodiscard]] std::string text() const { return "[" + items_ + "]"; }

 private:
  std::string items_;
};

}  // namespace sluice::api::openapi
