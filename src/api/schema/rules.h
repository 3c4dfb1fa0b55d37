#pragma once

#include <expected>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::api::schema {

// A fault of a schema and its position (RFC 6901).
struct Fault {
  std::string pointer;
  std::string reason;
};

inline constexpr std::size_t longest_schema = 1 << 20;  // bytes
inline constexpr std::size_t most_subschemas = 2000;
inline constexpr std::size_t deepest_schema = 100;  // nesting of subschemas, including references
inline constexpr std::size_t most_faults = 20;      // reported for one schema

struct Compiled;

// Compiles a schema and checks that it can be fully enforced: JSON Schema draft 7, and keywords of later drafts with
// the same meaning. It refuses keywords and formats that are unknown and would be silently ignored, a $ref that does
// not begin with "#", and endless recursion (a subschema that applies itself to the same value). Regular expressions
// are RE2's, which take linear time.
[[nodiscard]] std::expected<std::unique_ptr<const Compiled>, std::vector<Fault>> compile(std::string_view json);

// Rewrites the schema for use in another document at `place` ("#/components/schemas/Film"), in draft 2020-12, as
// OpenAPI 3.1 requires. Precondition: compile() accepts it.
[[nodiscard]] std::string relocated(std::string_view json, std::string_view place);

}  // namespace sluice::api::schema
