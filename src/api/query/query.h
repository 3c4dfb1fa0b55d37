#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/query_names.h"
#include "api/resident/value.h"

// The query string of a request for a list of rows:
//
//   roles=admin, roles=eq.admin       the value of a column; neq, gt, gte, lt, lte
//   id=in.(1,2,"a,b")                 one of these values
//   email=is.null                     or is.not_null, is.true, is.false
//   name=like.har*                    a text that matches
//   name=not.like.har*                the condition is false
//   or=(a.eq.1,and(b.gt.2,b.lt.3))    one of these conditions, with `not.` before each
//   sort=-popularity,name             descending, ascending
//   limit=20&offset=40
//   fields=id,name                    only these members
//
// A row must meet all conditions.
namespace sluice::api::query {

enum class Operator : std::uint8_t { eq, neq, gt, gte, lt, lte, in, is, like };

// The conditions and orders that clients can use for a column.
struct Column {
  std::string name;
  resident::ValueType type;
  bool filters = false;
  bool sorts = false;
  bool shows = false;                 // `fields` may name it
  bool orders = false;                // gt, gte, lt, lte are possible
  bool is_text = false;               // like is possible
  bool is_boolean = false;            // is.true and is.false are possible
  std::vector<std::string> labels{};  // of an enum: its only values
};

struct Bounds {
  std::size_t conditions = 32;
  std::size_t values = 200;  // of one `in`
  std::size_t depth = 4;     // of groups
};

// The possible parameters of a list. Immutable.
struct Vocabulary {
  std::vector<Column> columns;
  Bounds bounds;
  bool pages = false;        // after, before
  bool searches = false;     // q
  bool counts = false;       // count
  QueryNames others;         // further parameters, which are passed over
  bool skips_empty = false;  // an empty value without an operator is no condition
  bool any = false;          // unknown parameters are passed over

  [[nodiscard]] std::optional<std::size_t> find(std::string_view name) const;
};

// Names that a column with conditions cannot have.
[[nodiscard]] bool is_reserved(std::string_view name);

struct Condition {
  enum class Kind : std::uint8_t { compare, all, any };

  Kind kind = Kind::compare;
  bool negated = false;
  Operator op = Operator::eq;
  std::size_t column = 0;           // compare: index in the vocabulary
  std::vector<std::string> values;  // compare: of `in` any number, otherwise one
  std::vector<Condition> parts;     // all, any: at least one
};

struct Key {
  std::size_t column = 0;
  bool descending = false;
  bool operator==(const Key&) const = default;
};

enum class Count : std::uint8_t { none, exact, estimated };

struct Query {
  std::vector<Condition> conditions;
  std::vector<Key> sort;
  std::optional<std::uint64_t> limit;
  std::optional<std::uint64_t> offset;
  std::vector<std::size_t> fields;  // empty for all
  std::optional<std::string> after;
  std::optional<std::string> before;
  std::vector<std::string> words;  // of `q`
  Count count = Count::none;
};

// An invalid query: 400, with the parameter's name and the allowed values.
struct Refused {
  std::string parameter;
  std::string detail;
};

// The values are checked by the caller, because each converts them in its own way; value_fault() is the error.
[[nodiscard]] std::expected<Query, Refused> parse(const Vocabulary& vocabulary, std::string_view query);

// A list of columns, as `sort` has it: "-popularity,name". The detail says what is wrong.
[[nodiscard]] std::expected<std::vector<Key>, std::string> parse_order(const Vocabulary& vocabulary,
                                                                       std::string_view text,
                                                                       bool Column::* possible = &Column::sorts);

// For a value that does not fit the column's type.
[[nodiscard]] Refused value_fault(const Column& column);

}  // namespace sluice::api::query
