#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <re2/re2.h>
#include <simdjson.h>

namespace sluice::api::schema {

inline constexpr std::array type_names{"array", "boolean", "integer", "null", "number", "object", "string"};
enum class Type : std::uint8_t { array, boolean, integer, null, number, object, string };

// Keywords, or groups of them, that are checked together, in the order in which clients see their faults.
enum class Check : std::uint8_t {
  all_of,
  any_of,
  constant,
  contains,
  dependencies,
  one_of_values,
  format,
  items,
  condition,
  exclusive_maximum,
  maximum,
  max_size,
  exclusive_minimum,
  minimum,
  min_size,
  multiple_of,
  excluded,
  one_of,
  pattern,
  properties,
  property_names,
  required,
  type,
  unique_items,
  none,
};

// A subschema, with the values of its keywords. The Compiled schema owns everything that is pointed to.
struct Subschema {
  using Schemas = std::vector<const Subschema*>;
  using Names = std::vector<std::string_view>;  // sorted, each once
  template <class T>
  using ByName = std::vector<std::pair<std::string_view, T>>;  // sorted
  using Count = std::optional<std::uint64_t>;

  static const Subschema anything;

  const Subschema* reference = nullptr;  // $ref: applies instead of this one
  bool nothing = false;                  // the schema `false`
  std::uint32_t checks = 0;              // 1 << Check for each check that its keywords need

  std::uint8_t types = 0;  // 1 << Type for each allowed type
  simdjson::dom::element constant;
  std::vector<simdjson::dom::element> values;  // enum

  Schemas all_of;
  Schemas any_of;
  Schemas one_of;
  const Subschema* excluded = nullptr;   // not
  const Subschema* condition = nullptr;  // if
  const Subschema* if_true = nullptr;    // then
  const Subschema* if_false = nullptr;   // else

  double minimum = 0;
  double maximum = 0;
  double exclusive_minimum = 0;
  double exclusive_maximum = 0;
  simdjson::dom::element multiple_of;  // an integer is compared exactly

  Count min_length;
  Count max_length;
  const re2::RE2* pattern = nullptr;
  const re2::RE2* format = nullptr;
  std::string_view format_name;

  Count min_items;
  Count max_items;
  Schemas first_items;                       // `items`, if it is a list
  const Subschema* other_items = &anything;  // `items`, if it is a schema, or additionalItems; null: none allowed
  const Subschema* contains = nullptr;
  bool unique_items = false;

  Count min_properties;
  Count max_properties;
  Names required;
  ByName<const Subschema*> properties;
  std::vector<std::pair<const re2::RE2*, const Subschema*>> pattern_properties;  // sorted by pattern
  const Subschema* other_properties = &anything;  // additionalProperties; null: none are allowed
  const Subschema* property_names = nullptr;
  ByName<Names> dependent_names;  // dependencies, split as in draft 2019-09
  ByName<const Subschema*> dependent_schemas;
};

inline const Subschema Subschema::anything;

// Immutable once compile() has returned it.
struct Compiled {
  simdjson::dom::parser parser;  // owns names and constants
  std::map<std::string, std::unique_ptr<const re2::RE2>, std::less<>> patterns;
  std::deque<Subschema> subschemas;  // the first one is the whole schema
};

}  // namespace sluice::api::schema
