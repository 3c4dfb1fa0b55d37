#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace sluice::api {

// Looks a parameter up in a query string (`a=1&b=two+words`), decoding '+' and percent escapes. The view is into the
// query, or into `scratch` where something had to be decoded; `scratch` never moves while it is
// looked up in, so that earlier views stay, as long as no name is asked for twice. The first occurrence counts. A broken escape stays as it was sent.
class QueryString {
 public:
  QueryString(std::string_view query, std::string& scratch) : query_(query), scratch_(scratch) {
    scratch_.clear();
    scratch_.reserve(query.size());
  }

  [[nodiscard]] std::optional<std::string_view> find(std::string_view name) const;

 private:
  std::string_view query_;
  std::string& scratch_;
};

}  // namespace sluice::api
