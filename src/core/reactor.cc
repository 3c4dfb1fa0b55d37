#include "core/reactor.h"

#include <utility>

#include <linux/sockios.h>
#include <sys/ioctl.h>

#include "base/assert.h"

namespace sluice::core {

std::size_t Reactor::unsent(const Handle& handle) const noexcept {
  int bytes = 0;
  return ::ioctl(handle.fd, SIOCOUTQ, &bytes) == 0 && bytes > 0 ? static_cast<std::size_t>(bytes) : 0;
}

TurnHook::~TurnHook() {
  if (previous_ == nullptr) return;
  *previous_ = next_;
  if (next_ != nullptr) next_->previous_ = previous_;
}

void Lull::unlink() {
  if (!pending()) return;
  *previous_ = next_;
  if (next_ != nullptr) next_->previous_ = previous_;
  previous_ = nullptr;
}

void Reactor::begin_lull(Lull& lull, Duration time) {
  SLUICE_ASSERT(!lull.pending() && !lull.handle_.may_read && time > Duration::zero());
  if (!std::exchange(lull.quiet_, true)) set_quiet(lull.handle_, true);
  lull.end_ = now_ + time;
  Lull** place = &lulls_;
  while (*place != nullptr && (*place)->end_ <= lull.end_) place = &(*place)->next_;
  lull.next_ = *place;
  lull.previous_ = place;
  if (lull.next_ != nullptr) lull.next_->previous_ = &lull.next_;
  *place = &lull;
}

void Reactor::end_lull(Lull& lull) {
  lull.unlink();
  if (std::exchange(lull.quiet_, false) && lull.handle_.open()) set_quiet(lull.handle_, false);
}

Handle* Reactor::take_due_lull() {
  if (lulls_ == nullptr || lulls_->end_ > now_) return nullptr;
  Lull& lull = *lulls_;
  lull.unlink();
  lull.handle_.may_read = true;
  return &lull.handle_;
}

void Reactor::link(TurnHook& hook, TurnHook*& list) {
  if (hook.pending()) return;
  hook.next_ = list;
  hook.previous_ = &list;
  if (list != nullptr) list->previous_ = &hook.next_;
  list = &hook;
}

TurnHook& Reactor::unlink_first(TurnHook*& list) {
  TurnHook& hook = *list;
  list = std::exchange(hook.next_, nullptr);
  if (list != nullptr) list->previous_ = &list;
  hook.previous_ = nullptr;
  return hook;
}

void Reactor::at_turn_end(TurnHook& hook) { link(hook, hooks_); }
void Reactor::at_next_turn(TurnHook& hook) { link(hook, next_turn_); }

// A hook that registers itself again runs in the following turn.
void Reactor::begin_turn() {
  if (next_turn_is_due()) {
    if (due_ == nullptr) {
      due_ = std::exchange(next_turn_, nullptr);
      due_->previous_ = &due_;
    }
    const Instant end = clock() + next_turn_time;
    do {
      TurnHook& hook = unlink_first(due_);
      hook.run_(hook);
    } while (due_ != nullptr && clock() < end);
  }
  run_hooks();
}

// A hook may register another hook or itself again; these still run in this turn.
void Reactor::run_hooks() {
  while (hooks_ != nullptr) {
    TurnHook& hook = unlink_first(hooks_);
    hook.run_(hook);
  }
}

}  // namespace sluice::core
