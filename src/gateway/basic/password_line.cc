#include "gateway/basic/password_line.h"

#include <algorithm>

#include "core/sleep.h"

namespace sluice::gateway::basic {
namespace {

constexpr Duration pause = 5ms;     // how often to look whether a thread still works
constexpr Duration patience = 10s;  // how long to wait for a turn

}  // namespace

PasswordLine::Waiting::Waiting(PasswordLine& line, const std::string& network)
    : line_(line), place_(&*line.waiting_by_network_.try_emplace(network).first) {
  ++line.waiting_;
  ++place_->second;
  line.line_.push_back(this);
}

PasswordLine::Waiting::~Waiting() {
  leave_line();
  --line_.waiting_;
  if (--place_->second == 0) line_.waiting_by_network_.erase(std::string(place_->first));
}

void PasswordLine::Waiting::leave_line() { std::erase(line_.line_, this); }

bool PasswordLine::is_full(const std::string& network) const {
  const auto others = waiting_by_network_.find(network);
  return waiting_ >= queue_ ||
         (others != waiting_by_network_.end() && others->second >= std::max<std::size_t>(1, queue_ / 2));
}

const PasswordLine::Waiting* PasswordLine::next() const {
  const auto other = std::ranges::find_if(line_, [&](const auto* one) { return one->network() != served_last_; });
  return other != line_.end() ? *other : line_.front();
}

core::Task<std::expected<void, PasswordLine::Refusal>> PasswordLine::turn(Waiting& waiting,
                                                                          std::move_only_function<bool()> is_done) {
  const Instant end = reactor_.now() + patience;
  while (*is_busy_ || next() != &waiting) {
    if (reactor_.now() >= end) co_return std::unexpected(Refusal::busy);
    co_await core::Sleep(reactor_, reactor_.now() + pause);
    if (is_done && is_done()) co_return std::unexpected(Refusal::unnecessary);
  }
  waiting.leave_line();
  served_last_ = waiting.network();
  co_return std::expected<void, Refusal>{};
}

}  // namespace sluice::gateway::basic
