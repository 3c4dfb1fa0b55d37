#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

namespace sluice::api {

// Appends a name or a value of a query string, decoded. False: an escape is none; what came before it is appended.
[[nodiscard]] bool append_decoded(std::string_view encoded, std::string& out);

// Whether a name or a value is this text when it is decoded.
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
  // Whether one that is to come has the name.
  [[nodiscard]] bool has(std::string_view name) const;

 private:
  void skip() { rest_.remove_prefix(std::min(rest_.find_first_not_of('&'), rest_.size())); }

  std::string_view rest_;
};

// Looks a parameter up in a query string (`a=1&b=two+words`), decoding '+' and percent escapes. The view is into the
// query, or into `scratch` where something had to be decoded; `scratch` never moves while it is looked up in, so that
// earlier views stay, as long as no name is asked for twice. The first occurrence counts. A name with a broken escape
// is nobody's.
class QueryString {
 public:
  struct Value {
    std::string_view text;
    bool broken = false;  // it has an escape that is none; the text ends before it
  };

  QueryString(std::string_view query, std::string& scratch) : query_(query), scratch_(scratch) {
    scratch_.clear();
    scratch_.reserve(query.size());
  }

  // The first of the name.
  [[nodiscard]] std::optional<Value> find(std::string_view name) const {
    QueryPairs pairs(query_);
    return next(name, pairs);
  }
  // The next of the name among the pairs that are left.
  [[nodiscard]] std::optional<Value> next(std::string_view name, QueryPairs& pairs) const;
  [[nodiscard]] QueryPairs pairs() const { return QueryPairs(query_); }

 private:
  std::string_view query_;
  std::string& scratch_;
};

}  // namespace sluice::api
