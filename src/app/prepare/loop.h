#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "base/time.h"
#include "core/blocking_pool.h"
#include "core/mailbox.h"
#include "core/reactor.h"
#include "core/run_to_end.h"
#include "core/task.h"

namespace sluice::app {

// An event loop for queries that must run before there are cores. Used by one thread.
struct Loop {
  const std::unique_ptr<core::Reactor> reactor = core::make_epoll_reactor();
  core::Mailbox mailbox{*reactor};
  core::BlockingPool threads{1, 16};

  // The current wait of the running coroutine.
  struct Wait {
    Instant until = never;
    std::string what;  // the message if it takes too long
  };
  Wait wait;

  // Runs one coroutine to its end. Throws Wait::what when a wait takes too long.
  template <class T>
  T run(core::Task<T> task) {
    wait = {};
    auto result =
        core::run_unless([this] { return reactor->clock() > wait.until; }, *reactor, &mailbox, std::move(task));
    if (!result) throw std::runtime_error(wait.what);
    return *std::move(result);
  }
};

}  // namespace sluice::app
