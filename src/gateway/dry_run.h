#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "gateway/policy.h"

namespace sluice::gateway {

// A policy with `dry_run`: asks `of`, counts the requests that `of` refuses, and lets all of them continue. after() and
// ended() of `of` are called for refused requests too, as they are without a dry run.
class DryRun final : public Policy {
 public:
  explicit DryRun(std::unique_ptr<Policy> of) : Policy(of->parts), of_(std::move(of)) {}

  [[nodiscard]] core::Async<std::optional<http::Response>> before(http::Exchange& exchange, http::Slot& slot) override;
  void after(http::Exchange& exchange, http::Slot& slot, http::Response& response) override {
    of_->after(exchange, slot, response);
  }
  void ended(http::Exchange& exchange, http::Slot& slot, const http::Outcome& outcome) override {
    of_->ended(exchange, slot, outcome);
  }

  [[nodiscard]] bool owns_field(std::string_view name) const override { return of_->owns_field(name); }
  void used_by(std::uint16_t route, const http::Pattern& pattern) override { of_->used_by(route, pattern); }
  void begin() override { of_->begin(); }
  [[nodiscard]] Readings readings() const override;

 private:
  // Returns nothing, whatever the answer is.
  [[nodiscard]] std::optional<http::Response> count(const std::optional<http::Response>& answer);
  [[nodiscard]] core::Task<std::optional<http::Response>> count_later(core::Task<std::optional<http::Response>> asking);

  const std::unique_ptr<Policy> of_;
  std::uint64_t refused_ = 0;
};

}  // namespace sluice::gateway
