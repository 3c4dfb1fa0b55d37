#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "core/mailbox.h"
#include "core/mesh.h"
#include "core/reactor.h"
#include "core/task.h"

namespace sluice::core {

// The runtime of one thread, constructed, run and destroyed on that thread. Tests may step several cores on one thread.
class Core {
 public:
  Core(Mesh& mesh, unsigned index, std::unique_ptr<Reactor> reactor);
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;
  ~Core();

  [[nodiscard]] unsigned index() const { return port_.core(); }
  [[nodiscard]] Reactor& reactor() { return *reactor_; }
  [[nodiscard]] Mailbox& mailbox() { return mailbox_; }
  [[nodiscard]] MeshPort& mesh() { return port_; }
  [[nodiscard]] TaskGroup& tasks() { return tasks_; }

  // Runs the loop until stop(), then shuts down: runs messages until all other cores know that this core accepts no
  // more, cancels the tasks, answers the calls that it still serves with Errc::closed, delivers what is in the mailbox
  // and closes it. May be called once.
  void run();
  // May be called from any thread and from a signal handler.
  void stop() noexcept;
  [[nodiscard]] bool stopping() const { return stopping_.load(std::memory_order_relaxed); }

  // Runs one turn of the loop, which waits at most until `until`; for tests that step by hand.
  void step(Instant until = never);

 private:
  friend class Cores;
  void end();

  const std::unique_ptr<Reactor> reactor_;
  Mailbox mailbox_;
  MeshPort port_;
  TaskGroup tasks_;
  std::atomic<bool> stopping_{false};
  std::function<bool()> before_run_;  // set by Cores: waits for the other cores; false: a core could not start
};

// The threads of a process, one for each core, pinned to CPUs.
class Cores {
 public:
  struct Options {
    unsigned count = 0;  // 0: usable_cores()
    bool pin = true;     // to the allowed CPUs in order; ignored if there are fewer CPUs than cores
    std::size_t ring_capacity = 256;
    BackEnd back_end = BackEnd::epoll;  // the back end of the reactors
  };
  explicit Cores(Options options);
  Cores(const Cores&) = delete;
  Cores& operator=(const Cores&) = delete;
  ~Cores();  // stops, joins, then destroys the cores; threads that post to their mailboxes must have ended

  // Calls `body` on the thread of each core. `body` sets the core up on its own stack, calls run(), and tears the
  // core's objects down. run() starts only when all cores are set up, and start() returns when all are running. If a
  // body throws before that, run() returns at once on all other cores, and start() rethrows the first exception.
  void start(std::function<void(Core&)> body);
  void stop() noexcept;  // from any thread or a signal handler, between start() and the destructor
  void join();           // waits until all bodies have returned

  [[nodiscard]] unsigned size() const;
  // Valid after start().
  [[nodiscard]] Core& core(unsigned index);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sluice::core
