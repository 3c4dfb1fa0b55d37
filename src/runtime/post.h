#pragma once

#include <memory>
#include <utility>

#include "core/core.h"

namespace sluice::runtime {

// Runs `fn` on the core in a later turn. Returns false, and destroys it, if the core has ended. May be called from any
// thread; `fn` must not throw.
template <class Fn>
bool post(core::Core& core, Fn fn) {
  // Deletes itself when it has been delivered.
  struct Order : core::Letter {
    explicit Order(Fn run)
        : Letter([](core::Letter& letter) noexcept {
            const std::unique_ptr<Order> self(static_cast<Order*>(&letter));
            self->run();
          }),
          run(std::move(run)) {}
    Fn run;
  };
  auto order = std::make_unique<Order>(std::move(fn));
  if (!core.mailbox().post(*order)) return false;
  (void)order.release();
  return true;
}

}  // namespace sluice::runtime
