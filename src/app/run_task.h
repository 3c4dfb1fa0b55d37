#pragma once

#include <optional>
#include <utility>

#include "core/mailbox.h"
#include "core/reactor.h"
#include "core/task.h"

namespace sluice::app {

// Runs one coroutine to its end on a loop of its own.
template <class T>
T run_task(core::Reactor& reactor, core::Mailbox& mailbox, core::Task<T> task) {
  std::optional<T> result;
  core::TaskGroup tasks;
  tasks.spawn([](core::Task<T> inner, std::optional<T>& into) -> core::Task<void> {
    into.emplace(co_await std::move(inner));
  }(std::move(task), result));
  while (!result) {
    mailbox.deliver();
    if (!result) reactor.turn(reactor.now() + 100ms);
  }
  return std::move(*result);
}

}  // namespace sluice::app
