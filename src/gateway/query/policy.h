#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/changed_request.h"
#include "gateway/policy.h"
#include "gateway/query/options.h"
#include "gateway/request_ids.h"
#include "gateway/template.h"

namespace sluice::gateway::query {

// One core's [policy.NAME] of type "query": changes the query string of the request for the filters and the handler
// after it. Answers 403 if a claim or a value of the path has a control character.
class QueryPolicy final : public PolicyOf<QueryPolicy> {
 public:
  explicit QueryPolicy(const Options& options);

  [[nodiscard]] core::Async<std::optional<http::Response>> before(http::Exchange& exchange, http::Slot& slot) override;
  void used_by(std::uint16_t route, const http::Pattern& pattern) override;

 private:
  struct Addition {
    std::string name;  // encoded
    Template value;
  };

  // `name`: as the client has encoded it.
  [[nodiscard]] bool removes(std::string_view name);

  std::vector<std::string> removed_;  // including those that are set
  std::vector<Addition> added_;       // including those that are set
  bool makes_id_ = false;
  ChangedRequests changed_;
  RequestIds ids_;
  std::string scratch_;
};

}  // namespace sluice::gateway::query
