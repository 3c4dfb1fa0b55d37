#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

namespace sluice::http {

// Decodes a name or a value of a query string and appends it. Returns false at an invalid escape; the text before the
// escape has then been appended.
[[nodiscard]] bool append_decoded(std::string_view encoded, std::string& out);

// Whether a name or a value decodes to this text.
[[nodiscard]] bool equals_decoded(std::string_view encoded, std::string_view plain);

// The pairs of a query string, still encoded; empty ones are skipped.
class QueryPairs {
 public:
  struct Pair {
    std::string_view name;
    std::string_view value;  // empty without a `=`
  };
  explicit QueryPairs(std::string_view query) : rest_(query) { skip(); }
  [[nodiscard]] bool done() const { return rest_.empty(); }
  Pair next();
  // Whether a remaining pair has this name.
  [[nodiscard]] bool has(std::string_view name) const;

 private:
  void skip() { rest_.remove_prefix(std::min(rest_.find_first_not_of('&'), rest_.size())); }

  std::string_view rest_;
};

// Looks up parameters in a query string (`a=1&b=two+words`), decoding '+' and percent escapes. The returned view points
// into the query, or into `scratch` if something had to be decoded. `scratch` is not reallocated during lookups, so
// earlier views stay valid as long as no name is looked up twice. The first occurrence counts. A name with a broken
// escape matches nothing.
class QueryString {
 public:
  struct Value {
    std::string_view text;
    bool broken = false;  // the value has an invalid escape; the text ends before it
  };

  QueryString(std::string_view query, std::string& scratch) : query_(query), scratch_(scratch) {
    scratch_.clear();
    scratch_.reserve(query.size());
  }

  // The first value with this name.
  [[nodiscard]] std::optional<Value> find(std::string_view name) const {
    QueryPairs pairs(query_);
    return next(name, pairs);
  }
  // The next value with this name among the remaining pairs.
  [[nodiscard]] std::optional<Value> next(std::string_view name, QueryPairs& pairs) const;
  [[nodiscard]] QueryPairs pairs() const { return QueryPairs(query_); }

 private:
  std::string_view query_;
  std::string& scratch_;
};

}  // namespace sluice::http
