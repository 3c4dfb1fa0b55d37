#include "core/reactor.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>

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

void Reactor::at_turn_end(TurnHook& hook) {
  if (hook.pending()) return;
  hook.next_ = hooks_;
  hook.previous_ = &hooks_;
  if (hooks_ != nullptr) hooks_->previous_ = &hook.next_;
  hooks_ = &hook;
}

// A hook may ask for another, or for itself again: that one still belongs to this turn.
void Reactor::run_hooks() {
  while (TurnHook* hook = hooks_) {
    hooks_ = hook->next_;
    if (hooks_ != nullptr) hooks_->previous_ = &hooks_;
    hook->next_ = nullptr;
    hook->previous_ = nullptr;
    hook->run_(*hook);
  }
}

}  // namespace sluice::core
