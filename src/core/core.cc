#include "core/core.h"

#include <condition_variable>
#include <cstdio>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <pthread.h>
#include <sched.h>

#include "base/assert.h"
#include "core/usable_cores.h"

namespace sluice::core {
namespace {

void pin_to(unsigned cpu) {
  cpu_set_t* const set = CPU_ALLOC(cpu + 1);
  if (set == nullptr) return;
  const std::size_t bytes = CPU_ALLOC_SIZE(cpu + 1);
  CPU_ZERO_S(bytes, set);
  CPU_SET_S(cpu, bytes, set);
  // If pinning is not permitted, the thread runs unpinned.
  pthread_setaffinity_np(pthread_self(), bytes, set);
  CPU_FREE(set);
}

}  // namespace

Core::Core(Mesh& mesh, unsigned index, std::unique_ptr<Reactor> reactor)
    : reactor_(std::move(reactor)), mailbox_(*reactor_), port_(mesh, index, *reactor_) {}

Core::~Core() { tasks_.cancel(); }

void Core::stop() noexcept {
  stopping_.store(true, std::memory_order_relaxed);
  reactor_->wake();
}

void Core::step(Instant until) {
  mailbox_.deliver();
  port_.drain();
  reactor_->turn(port_.prepare_to_sleep() ? until : reactor_->now());
  port_.awake();
}

void Core::run() {
  if (!before_run_ || before_run_()) {
    while (!stopping()) step();
  }
  end();
}

void Core::end() {
  port_.refuse_new();
  while (!port_.quiet()) step();
  tasks_.cancel();
  port_.cancel_served();
  while (!port_.flushed()) step();
  port_.end();
  mailbox_.close();
}

// The threads pass through these stages together: all cores are constructed and set up, all run, all return, all are
// destroyed.
struct Cores::State {
  explicit State(const Options& given)
      : options(given),
        count(given.count != 0 ? given.count : usable_cores()),
        mesh(count, given.ring_capacity),
        cores(count, nullptr) {}

  template <class Condition>
  void wait(Condition condition) {
    std::unique_lock lock(mutex);
    changed.wait(lock, condition);
  }
  void count_one(unsigned& counter) {
    {
      const std::lock_guard lock(mutex);
      ++counter;
    }
    changed.notify_all();
  }
  void fail_start() {
    {
      const std::lock_guard lock(mutex);
      if (!error) error = std::current_exception();
    }
    changed.notify_all();
  }
  void serve(unsigned index, const std::vector<unsigned>& cpus);

  const Options options;
  const unsigned count;
  Mesh mesh;
  std::function<void(Core&)> body;
  std::vector<std::thread> threads;

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Core*> cores;
  unsigned made = 0;      // cores that exist or failed to start
  unsigned set_up = 0;    // bodies that have called run(), or never will
  unsigned returned = 0;  // bodies that have returned
  bool may_destroy = false;
  std::exception_ptr error;  // the first error during start
};

void Cores::State::serve(unsigned index, const std::vector<unsigned>& cpus) {
  char name[16];
  std::snprintf(name, sizeof name, "sluice-%u", index);
  pthread_setname_np(pthread_self(), name);
  if (options.pin && cpus.size() >= count) pin_to(cpus[index]);

  std::unique_ptr<Core> core;
  bool running = false;
  try {
    core = std::make_unique<Core>(mesh, index, make_reactor(options.back_end));
    const std::lock_guard lock(mutex);
    cores[index] = core.get();
  } catch (...) {
    fail_start();
  }
  // All ports must exist before the first post.
  count_one(made);
  wait([this] { return made == count; });
  if (core != nullptr) {
    core->before_run_ = [this, &running] {
      running = true;
      count_one(set_up);
      wait([this] { return set_up == count; });
      return !error;
    };
    try {
      body(*core);
    } catch (...) {
      if (running) throw;  // no caller is left to receive it
      fail_start();
    }
  }
  if (!running) {
    count_one(set_up);
    if (core != nullptr) core->end();  // the other cores wait until it promises to post no more
  }
  count_one(returned);
  // Other cores may still wake this core.
  wait([this] { return may_destroy && returned == count; });
}

Cores::Cores(Options options) : state_(std::make_unique<State>(options)) {}

Cores::~Cores() {
  stop();
  {
    const std::lock_guard lock(state_->mutex);
    state_->may_destroy = true;
  }
  state_->changed.notify_all();
  for (std::thread& thread : state_->threads) thread.join();
}

void Cores::start(std::function<void(Core&)> body) {
  State& state = *state_;
  SLUICE_ASSERT(state.threads.empty());
  state.body = std::move(body);
  const std::vector<unsigned> cpus = allowed_cpus();
  state.threads.reserve(state.count);
  try {
    for (unsigned index = 0; index < state.count; ++index) {
      state.threads.emplace_back([&state, index, cpus] { state.serve(index, cpus); });
    }
  } catch (...) {
    // The threads that were started wait for those that could not be started.
    state.fail_start();
    for (std::size_t missing = state.threads.size(); missing < state.count; ++missing) {
      state.count_one(state.made);
      state.count_one(state.set_up);
      state.count_one(state.returned);
    }
  }
  state.wait([&] { return state.set_up == state.count; });
  if (state.error) {
    join();
    std::rethrow_exception(state.error);
  }
}

void Cores::stop() noexcept {
  for (Core* core : state_->cores) {
    if (core != nullptr) core->stop();
  }
}

void Cores::join() {
  state_->wait([this] { return state_->threads.empty() || state_->returned == state_->count; });
}

unsigned Cores::size() const { return state_->count; }

Core& Cores::core(unsigned index) { return *state_->cores[index]; }

}  // namespace sluice::core
