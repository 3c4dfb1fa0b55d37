#pragma once

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

// The parameters that a request may have in its query string. Made at start, immutable.
class QueryNames {
 public:
  QueryNames() = default;
  // `any`: what is not known is passed over.
  explicit QueryNames(QueryParameters of_endpoint) : any_(of_endpoint == QueryParameters::any) {}

  // Those of the sources that come from the query string; they may be there already.
  void add(std::span<const Source> sources);
  void add(std::string_view name, bool list = false);

  // 400 for a parameter that is not known, or that comes several times and is no list; nothing for what may be.
  [[nodiscard]] std::optional<http::Response> refuse(const http::Request& request) const {
    if (request.query.empty()) [[likely]]
      return std::nullopt;
    return refuse(request.query);
  }

  // All that are known.
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
