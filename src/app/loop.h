#pragma once

#include <memory>
#include <utility>

#include "core/blocking_pool.h"
#include "core/mailbox.h"
#include "core/reactor.h"
#include "core/run_to_end.h"
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
    return core::run_to_end(*reactor, &mailbox, std::move(task));
  }
};

}  // namespace sluice::app
