#include "http/body_budget.h"

#include <algorithm>

#include "base/assert.h"

namespace sluice::http {

bool BodyBudget::hold(std::uint64_t bytes, const Share& asks) {
  if (counters_.held + bytes > counters_.limit && !make_room(bytes, asks)) return false;
  counters_.held += bytes;
  counters_.peak = std::max(counters_.peak, counters_.held);
  return true;
}

// The list is ordered by the time of last progress, so the search stops at the first share with recent progress.
bool BodyBudget::make_room(std::uint64_t bytes, const Share& asks) {
  const Instant still_since = reactor_.now() - patience;
  for (Share* share = stillest_; share != nullptr && share->grew_at_ <= still_since;) {
    Share* const next = share->livelier_;
    if (share->waits_ && share != &asks) {
      share->release();
      share->is_cut_ = true;
      ++counters_.cut;
      share->cut();
      if (counters_.held + bytes <= counters_.limit) return true;
    }
    share = next;
  }
  return false;
}

void BodyBudget::Share::begin(BodyBudget& budget, std::uint64_t& connection) {
  SLUICE_ASSERT(bytes_ == 0 && always_ == 0 && !is_linked_);
  budget_ = &budget;
  connection_ = &connection;
  is_cut_ = waits_ = false;
}

BodyBudget::Share::Taken BodyBudget::Share::take(std::size_t bytes) {
  if (is_cut_) return Taken::no;
  const std::uint64_t most = budget_->connection_limit();
  const bool too_long = bytes > most || bytes_ > most - bytes;
  if (too_long || *connection_ > most - bytes || !budget_->hold(bytes, *this)) {
    ++budget_->counters_.refused;
    return too_long ? Taken::too_long : Taken::no;
  }
  bytes_ += bytes;
  came_ += bytes;
  *connection_ += bytes;
  if (!is_linked_ || came_ >= pace_bytes) link();
  return Taken::yes;
}

bool BodyBudget::Share::hold_answer(std::size_t bytes) {
  const std::uint64_t most = budget_->connection_limit();
  const bool fits = *connection_ == 0 || (bytes <= most && *connection_ <= most - bytes);
  if (is_cut_ || !fits || !budget_->hold(bytes, *this)) {
    ++budget_->counters_.refused;
    return false;
  }
  bytes_ += bytes;
  *connection_ += bytes;
  link();
  waits_ = true;
  return true;
}

void BodyBudget::Share::give_back(std::size_t bytes) {
  if (is_cut_) return;
  SLUICE_ASSERT(bytes <= bytes_);
  bytes_ -= bytes;
  *connection_ -= bytes;
  budget_->counters_.held -= bytes;
}

void BodyBudget::Share::release() {
  if (bytes_ != 0) give_back(static_cast<std::size_t>(bytes_));
  handled();
  unlink();
}

bool BodyBudget::Share::occupy(std::uint64_t always, std::uint64_t while_handled) {
  if (!budget_->hold(always + while_handled, *this)) {
    ++budget_->counters_.refused;
    return false;
  }
  always_ = always;
  while_handled_ = while_handled;
  return true;
}

// Moves the share to the end of the list.
void BodyBudget::Share::link() {
  unlink();
  came_ = 0;
  grew_at_ = budget_->reactor_.now();
  stiller_ = budget_->liveliest_;
  (stiller_ != nullptr ? stiller_->livelier_ : budget_->stillest_) = this;
  budget_->liveliest_ = this;
  is_linked_ = true;
}

void BodyBudget::Share::unlink() {
  if (!is_linked_) return;
  (stiller_ != nullptr ? stiller_->livelier_ : budget_->stillest_) = livelier_;
  (livelier_ != nullptr ? livelier_->stiller_ : budget_->liveliest_) = stiller_;
  stiller_ = livelier_ = nullptr;
  is_linked_ = false;
}

}  // namespace sluice::http
