#pragma once

#include <optional>
#include <utility>

#include "core/mailbox.h"
#include "core/reactor.h"
#include "core/task.h"

// Runs one coroutine on a loop that is not running otherwise: at start-up, in commands, in tests.
namespace sluice::core {

// Runs until the coroutine ends. `gives_up()` is called at least every 20 ms; if it returns true, the coroutine is
// cancelled and the result is empty. `mailbox` may be null.
template <class T, class GivesUp>
[[nodiscard]] std::optional<T> run_unless(GivesUp gives_up, Reactor& reactor, Mailbox* mailbox, Task<T> task) {
  std::optional<T> result;
  TaskGroup tasks;
  tasks.spawn([](Task<T> inner, std::optional<T>& into) -> Task<void> { into.emplace(co_await std::move(inner)); }(
                                                            std::move(task), result));
  while (!result && !gives_up()) {
    if (mailbox != nullptr) mailbox->deliver();
    if (!result) reactor.turn(reactor.clock() + 20ms);
  }
  return result;
}

template <class T>
[[nodiscard]] T run_to_end(Reactor& reactor, Mailbox* mailbox, Task<T> task) {
  return *run_unless([] { return false; }, reactor, mailbox, std::move(task));
}

}  // namespace sluice::core
