#pragma once

#include <optional>
#include <utility>

#include "core/mailbox.h"
#include "core/reactor.h"
#include "core/task.h"

// One coroutine on a loop that nobody else turns: at the start, in commands, in tests.
namespace sluice::core {

// Until it ends, or `gives_up()`, which is asked every 20 ms at least and cancels it: nothing. `mailbox` may be null.
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
