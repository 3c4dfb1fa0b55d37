#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gateway/changed_request.h"
#include "gateway/headers/options.h"
#include "gateway/policy.h"
#include "gateway/request_ids.h"
#include "gateway/template.h"

namespace sluice::gateway::headers {

// Whether a policy may change a field of this name. Fields for message framing, routing and the client's address belong
// to the connection and the gateway.
[[nodiscard]] bool may_change_in_request(std::string_view name);
[[nodiscard]] bool may_change_in_response(std::string_view name);

// One core's [policy.NAME] of type "headers": changes the header of the request for the filters and the handler after
// it, and the header of the answer. Answers 403 if a claim or a value of the path is not
// a valid field value.
class HeadersPolicy final : public PolicyOf<HeadersPolicy> {
 public:
  explicit HeadersPolicy(const Options& options);

  [[nodiscard]] core::Async<std::optional<http::Response>> before(http::Exchange& exchange, http::Slot& slot) override;
  void after(http::Exchange& exchange, http::Slot& slot, http::Response& response) override;
  [[nodiscard]] bool owns_field(std::string_view name) const override;
  void used_by(std::uint16_t route, const http::Pattern& pattern) override;

 private:
  struct Change {
    std::string name;
    Template value;
  };
  struct Changes {
    explicit Changes(const std::optional<ChangeOptions>& options);
    [[nodiscard]] bool empty() const { return add.empty() && remove.empty(); }
    [[nodiscard]] bool removes(std::string_view name) const;
    [[nodiscard]] bool adds(std::string_view name) const;
    [[nodiscard]] bool uses(Template::Source source) const;

    std::vector<Change> add;          // fields to add and to set
    std::vector<std::string> remove;  // names to remove, including those that are set
  };

  const bool request_id_;
  Changes request_;
  Changes response_;
  const bool makes_id_;
  const bool changes_request_;
  ChangedRequests changed_;
  RequestIds ids_;
  std::vector<std::pair<std::size_t, std::size_t>> places_;  // begin and end of each value in a text
};

}  // namespace sluice::gateway::headers
