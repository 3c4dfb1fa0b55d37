#pragma once

#include <expected>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::api::schema {

// What is wrong with a schema, and where in it (RFC 6901).
struct Fault {
  std::string pointer;
  std::string reason;
};

inline constexpr std::size_t longest_schema = 1 << 20;  // bytes
inline constexpr std::size_t most_subschemas = 2000;
inline constexpr std::size_t deepest_schema = 100;  // of nested subschemas, references followed
inline constexpr std::size_t most_faults = 20;      // how many faults of one schema are told

// Whether a text is a schema that can be enforced as it stands: JSON Schema draft 7, and what later drafts spell alike.
// Refused is what would be passed over in silence (keywords and formats that are not known), what is elsewhere (a $ref
// that does not begin with "#"), and what never ends (a subschema that applies itself to the same value). Gives the
// regular expressions that it holds, also by its formats, which RE2 takes: others could take exponential time.
[[nodiscard]] std::expected<std::vector<std::string>, std::vector<Fault>> check_rules(std::string_view json);

// The schema as a part of another document, where it is found at `place` ("#/components/schemas/Film"), in the words of
// draft 2020-12, which OpenAPI 3.1 takes. Precondition: check_rules() takes it.
[[nodiscard]] std::string relocated(std::string_view json, std::string_view place);

// RE2's regular expression for a format that is checked by one; empty: it has none.
[[nodiscard]] std::string_view format_pattern(std::string_view format);

}  // namespace sluice::api::schema
