#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/options.h"
#include "api/source.h"
#include "http/request.h"
#include "http/response.h"

namespace sluice::api {

// The parameters that a query string may have. Created at start, immutable.
class QueryNames {
 public:
  QueryNames() = default;
  // With `any`, unknown parameters are ignored.
  explicit QueryNames(QueryParameters of_endpoint) : any_(of_endpoint == QueryParameters::any) {}

  // Adds the sources that come from the query string. A name may be added more than once.
  void add(std::span<const Source> sources);
  void add(std::string_view name, bool list = false);

  // Returns a 400 for an unknown parameter, and for one that is repeated but is not a list. Otherwise returns nullopt.
  [[nodiscard]] std::optional<http::Response> refuse(const http::Request& request) const {
    if (request.query.empty()) [[likely]]
      return std::nullopt;
    return refuse(request.query);
  }

  [[nodiscard]] bool knows(std::string_view name) const {
    return std::ranges::find(names_, name, &Name::text) != names_.end();
  }
  // Whether it may come more than once.
  [[nodiscard]] bool takes_list(std::string_view name) const {
    return std::ranges::any_of(names_, [&](const Name& one) { return one.text == name && one.list; });
  }
  [[nodiscard]] std::vector<std::string_view> all() const {
    std::vector<std::string_view> all;
    for (const Name& name : names_) all.push_back(name.text);
    return all;
  }

 private:
  struct Name {
    std::string text;
    bool list = false;
  };
  [[nodiscard]] std::optional<http::Response> refuse(std::string_view query) const;

  std::vector<Name> names_;
  bool any_ = false;
};

// 400 for a parameter of the query string; its name is a member of the problem.
[[nodiscard]] http::Response refuse_parameter(std::string_view name, std::string_view detail);

}  // namespace sluice::api
