#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace sluice::api {

// Appends a name or a value of a query string, decoded. False: an escape is none; what came before it is appended.
[[nodiscard]] bool append_decoded(std::string_view encoded, std::string& out);

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

  [[nodiscard]] std::optional<Value> find(std::string_view name) const;
  // Whether it comes more than once.
  [[nodiscard]] bool repeats(std::string_view name) const;

 private:
  std::string_view query_;
  std::string& scratch_;
};

}  // namespace sluice::api
