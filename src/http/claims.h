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

  // The names of the enclosing objects and the claim's own name, joined by dots: "sub", "realm_access.roles". Empty for
  // items of an array.
  std::string_view path;
  // For a string, its characters. For other kinds, JSON without white space: "true", "42", "[1,2]".
  std::string_view text;
  std::span<const Claim> items;  // of an array, in its order
  Kind kind{};
  std::uint8_t depth = 0;  // number of enclosing objects and arrays; 1 for a member of the payload itself
};

// Whether the claim lists scopes. Its value is an array of strings, or one string of words separated by spaces
// (RFC 8693, 4.2).
[[nodiscard]] inline bool is_scope(std::string_view path) { return path == "scope" || path == "scp"; }

// The claims of a verified token about the caller: the payload of a JWT, indexed by path. Immutable. The gateway policy
// that verifies the token creates it; endpoints read it. All users are on one core.
class Claims {
 public:
  static constexpr std::size_t max_depth = 16;          // nesting of objects and arrays
  static constexpr std::size_t max_bytes = 128 * 1024;  // memory that the claims may use

  // Returns null if the text is not a JSON object, if a name occurs twice in one object (RFC 7519, 4), or if a limit is
  // exceeded.
  [[nodiscard]] static std::shared_ptr<const Claims> parse(std::string_view json);

  Claims(const Claims&) = delete;

  // Returns null if there is no such claim. A name may contain dots: if "a.b" could mean two claims, the one inside
  // fewer objects is returned.
  [[nodiscard]] const Claim* find(std::string_view path) const;
  // Members of the payload and of the objects in it (not of objects in arrays), sorted by path.
  [[nodiscard]] std::span<const Claim> all() const { return claims_; }
  // Approximate memory use.
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  class Builder;
  Claims() : claims_(&memory_) {}

  std::pmr::monotonic_buffer_resource memory_{1024};  // holds the text of all views and the items of arrays
  std::pmr::vector<Claim> claims_;
  std::size_t bytes_ = sizeof(Claims);
};

}  // namespace sluice::http
