#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "core/mailbox.h"
#include "core/mesh.h"
#include "core/reactor.h"
#include "core/task.h"

namespace sluice::core {

// One thread's runtime: made, run and destroyed on that thread. Tests may step several cores on one thread.
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

  // Turns until stop(), then ends: runs what other cores have posted until they know that nothing more is taken,
  // cancels the tasks, answers the calls that it still serves with Errc::closed, delivers what is in the mailbox and
  // closes it. Once in the life of a core.
  void run();
  // From any thread, a signal handler too.
  void stop() noexcept;
  [[nodiscard]] bool stopping() const { return stopping_.load(std::memory_order_relaxed); }

  // One turn of the loop, for tests that step by hand; at most until `until`.
  void step(Instant until = never);

 private:
  friend class Cores;
  void end();

  const std::unique_ptr<Reactor> reactor_;
  Mailbox mailbox_;
  MeshPort port_;
  TaskGroup tasks_;
  std::atomic<bool> stopping_{false};
  std::function<bool()> before_run_;  // of Cores: waits for the other cores; false: one of them could not start
};

// The threads of a process: one for each core, pinned.
class Cores {
 public:
  struct Options {
    unsigned count = 0;  // 0: usable_cores()
    bool pin = true;     // to the allowed CPUs in order; not done when there are fewer of them than cores
    std::size_t ring_capacity = 256;
    BackEnd back_end = BackEnd::epoll;  // that the reactors are of
  };
  explicit Cores(Options options);
  Cores(const Cores&) = delete;
  Cores& operator=(const Cores&) = delete;
  ~Cores();  // stops, joins, and then destroys the cores: whatever posts to their mailboxes has ended before

  // Calls `body` on the thread of each core. It sets the core up on its stack, calls run(), and takes down what it set
  // up: nobody runs before all have been set up. Returns when all run. If a body throws before, the run() of the others
  // returns at once, and start() throws what the first one threw.
  void start(std::function<void(Core&)> body);
  void stop() noexcept;  // from any thread, a signal handler too; between start() and the destructor
  void join();           // until all bodies have returned

  [[nodiscard]] unsigned size() const;
  // While started.
  [[nodiscard]] Core& core(unsigned index);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sluice::core
