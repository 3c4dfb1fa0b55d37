#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "core/blocking_pool.h"
#include "core/mailbox.h"
#include "core/reactor.h"
#include "core/task.h"

namespace sluice::app {

// A loop for what must be asked before there are cores to serve with. One thread's.
struct Loop {
  const std::unique_ptr<core::Reactor> reactor = core::make_epoll_reactor();
  core::Mailbox mailbox{*reactor};
  core::BlockingPool threads{1, 16};

  // Runs one coroutine to its end.
  template <class T>
  T run(core::Task<T> task) {
    std::optional<T> result;
    core::TaskGroup tasks;
    tasks.spawn([](core::Task<T> inner, std::optional<T>& into) -> core::Task<void> {
      into.emplace(co_await std::move(inner));
    }(std::move(task), result));
    while (!result) {
      mailbox.deliver();
      if (!result) reactor->turn(reactor->now() + 100ms);
    }
    return std::move(*result);
  }
};

}  // namespace sluice::app
