#pragma once

#include <atomic>
#include <condition_variable>
#include <coroutine>
#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/result.h"
#include "core/mailbox.h"

namespace sluice::core {

// A few threads for work that blocks: scans of SQLite, name look-ups, files that are not in the page cache.
//
//   auto work = [scan = std::move(scan)]() mutable { return scan.run(); };
//   Result<int> rows = co_await pool.run(mailbox, std::move(work));
//
// (The work is a named variable because g++ 12 has a bug: it destroys a closure that owns its captures twice if the
// closure is a temporary in a co_await expression. This applies to every awaited call that takes a closure.)
//
// The work runs on a pool thread. The caller resumes on its own core, whose mailbox it passes. Errors of the pool are
// Errc::limit (the queue is full; reported at once) and Errc::closed (the pool ended before the work started). If the
// work returns a Result, the caller gets a Result in a Result. An exception thrown by the work is rethrown in the
// caller.
//
// Destroying the waiting coroutine cancels the work: queued work leaves the queue; running work finishes, and its
// result is discarded on the home core. Neither the work nor its result may own slab memory of another thread.
class BlockingPool {
 public:
  // At most `queue_limit` jobs wait for a thread; running jobs do not count. Throws if threads cannot be started.
  BlockingPool(unsigned threads, std::size_t queue_limit);
  BlockingPool(const BlockingPool&) = delete;
  BlockingPool& operator=(const BlockingPool&) = delete;
  // Waits for running work to finish. Queued work fails with Errc::closed. run() must not be called any more.
  ~BlockingPool();

  template <class Work>
  [[nodiscard]] auto run(Mailbox& home, Work work);

  [[nodiscard]] std::size_t queued() const;

 private:
  struct Queue;

  // Has two owners: the awaiter, and the pool until the job is delivered. The last owner frees it.
  struct Job : Letter {
    using Function = void (*)(Job&) noexcept;
    Job(Mailbox& home, Function work, Function destroy) : Letter(delivered), work(work), destroy(destroy), home(home) {}
    static void delivered(Letter& letter) noexcept;
    void release() noexcept {
      if (owners.fetch_sub(1, std::memory_order_acq_rel) == 1) destroy(*this);
    }

    const Function work;
    const Function destroy;
    Mailbox& home;
    std::shared_ptr<Queue> queue;    // may outlive the pool
    Job* newer = nullptr;            // link in the queue, guarded by its mutex
    Job* older = nullptr;            // likewise
    bool is_queued = false;          // likewise
    std::coroutine_handle<> caller;  // on the home core; null: the caller was destroyed
    std::atomic<int> owners{2};
  };

  template <class Work>
  struct JobOf final : Job {
    using Value = std::invoke_result_t<Work&>;
    JobOf(Mailbox& mailbox, Work&& given)
        : Job(
              mailbox, [](Job& job) noexcept { static_cast<JobOf&>(job).perform(); },
              [](Job& job) noexcept { delete &static_cast<JobOf&>(job); }),
          callable(std::move(given)) {}
    void perform() noexcept {
      try {
        if constexpr (std::is_void_v<Value>) {
          callable();
          result.emplace();
        } else {
          result.emplace(std::in_place, callable());
        }
      } catch (...) {
        thrown = std::current_exception();
      }
    }
    Work callable;
    std::exception_ptr thrown;
    std::optional<Result<Value>> result;  // empty if the work never ran
  };

  template <class Work>
  class Awaiter;

  bool enqueue(Job& job);
  static void abandon(Job& job) noexcept;
  static void serve(Queue& queue) noexcept;
  void end() noexcept;

  std::shared_ptr<Queue> queue_;
  std::vector<std::thread> threads_;
};

template <class Work>
class BlockingPool::Awaiter {
 public:
  using Value = typename JobOf<Work>::Value;

  Awaiter(BlockingPool& pool, Mailbox& home, Work&& work) : pool_(pool), job_(new JobOf<Work>(home, std::move(work))) {}
  Awaiter(const Awaiter&) = delete;
  Awaiter& operator=(const Awaiter&) = delete;
  ~Awaiter() {
    if (!posted_) {
      delete job_;
    } else if (job_->caller) {
      abandon(*job_);
    } else {
      job_->release();
    }
  }

  bool await_ready() const noexcept { return false; }
  bool await_suspend(std::coroutine_handle<> caller) {
    job_->caller = caller;
    posted_ = pool_.enqueue(*job_);
    return posted_;
  }
  Result<Value> await_resume() {
    if (!posted_) return fail(Errc::limit);
    if (job_->thrown) std::rethrow_exception(job_->thrown);
    if (!job_->result) return fail(Errc::closed);
    return std::move(*job_->result);
  }

 private:
  BlockingPool& pool_;
  JobOf<Work>* job_;
  bool posted_ = false;
};

template <class Work>
auto BlockingPool::run(Mailbox& home, Work work) {
  return Awaiter<Work>(*this, home, std::move(work));
}

}  // namespace sluice::core
