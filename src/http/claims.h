#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <span>
#include <string_view>
#include <vector>

namespace sluice::http {

// One value of a token's payload.
struct Claim {
  enum class Kind : std::uint8_t { null, boolean, number, string, array, object };

  // The names of the objects that it is in and its own, joined by dots: "sub", "realm_access.roles". Empty for an
  // array's items.
  std::string_view path;
  // A string's characters; else JSON without white space: "true", "42", "[1,2]".
  std::string_view text;
  std::span<const Claim> items;  // an array's, in its order
  Kind kind{};
  std::uint8_t depth = 0;  // objects and arrays around it; a member of the payload itself has 1
};

// What a verified token says of whoever asks: the payload of a JWT, by path. Immutable; whoever verified the token
// makes it (a policy of the gateway), whoever answers reads it (an endpoint). Its users are all on one core.
class Claims {
 public:
  static constexpr std::size_t max_depth = 16;          // objects and arrays within each other
  static constexpr std::size_t max_bytes = 128 * 1024;  // what the claims may take in memory

  // Null: not a JSON object, a member's name comes twice in one object (RFC 7519, 4), or over a limit.
  [[nodiscard]] static std::shared_ptr<const Claims> parse(std::string_view json);

  Claims(const Claims&) = delete;

  // Null: there is none. A name may hold dots itself: where "a.b" could be two claims, it is the one in fewer objects.
  [[nodiscard]] const Claim* find(std::string_view path) const;
  // Members of the payload and of the objects in it (not of objects in arrays), sorted by path.
  [[nodiscard]] std::span<const Claim> all() const { return claims_; }
  // What they take in memory, about.
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  class Builder;
  Claims() : claims_(&memory_) {}

  std::pmr::monotonic_buffer_resource memory_{1024};  // of all views, and of arrays' items
  std::pmr::vector<Claim> claims_;
  std::size_t bytes_ = sizeof(Claims);
};

}  // namespace sluice::http
