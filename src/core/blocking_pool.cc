#include "core/blocking_pool.h"

#include <csignal>

#include <pthread.h>

#include "base/assert.h"

namespace sluice::core {

struct BlockingPool::Queue {
  explicit Queue(std::size_t limit) : limit(limit) {}

  void push(Job& job) {
    job.newer = nullptr;
    job.older = newest;
    (newest != nullptr ? newest->newer : oldest) = &job;
    newest = &job;
    job.is_queued = true;
    ++size;
  }
  void unlink(Job& job) {
    (job.newer != nullptr ? job.newer->older : newest) = job.older;
    (job.older != nullptr ? job.older->newer : oldest) = job.newer;
    job.is_queued = false;
    --size;
  }

  const std::size_t limit;
  std::mutex mutex;
  std::condition_variable changed;
  Job* oldest = nullptr;
  Job* newest = nullptr;
  std::size_t size = 0;
  bool ended = false;
};

BlockingPool::BlockingPool(unsigned threads, std::size_t queue_limit) : queue_(std::make_shared<Queue>(queue_limit)) {
  SLUICE_ASSERT(threads > 0);
  // A new thread inherits the signal mask. Blocking all signals leaves them to the threads that handle them.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    threads_.reserve(threads);
    for (unsigned index = 0; index < threads; ++index) {
      threads_.emplace_back([queue = queue_] { serve(*queue); });
      pthread_setname_np(threads_.back().native_handle(), "sluice-block");
    }
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    end();
    throw;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

BlockingPool::~BlockingPool() { end(); }

void BlockingPool::end() noexcept {
  Job* job = nullptr;
  {
    const std::lock_guard lock(queue_->mutex);
    queue_->ended = true;
    job = queue_->oldest;
    for (Job* each = job; each != nullptr; each = each->newer) each->is_queued = false;
    queue_->oldest = queue_->newest = nullptr;
    queue_->size = 0;
  }
  queue_->changed.notify_all();
  while (job != nullptr) {
    Job* const next = job->newer;
    if (!job->home.post(*job)) job->release();
    job = next;
  }
  for (std::thread& thread : threads_) thread.join();
}

std::size_t BlockingPool::queued() const {
  const std::lock_guard lock(queue_->mutex);
  return queue_->size;
}

bool BlockingPool::enqueue(Job& job) {
  {
    const std::lock_guard lock(queue_->mutex);
    SLUICE_ASSERT(!queue_->ended);
    if (queue_->size >= queue_->limit) return false;
    job.queue = queue_;
    queue_->push(job);
  }
  queue_->changed.notify_one();
  return true;
}

void BlockingPool::abandon(Job& job) noexcept {
  job.caller = nullptr;
  bool was_queued = false;
  {
    const std::lock_guard lock(job.queue->mutex);
    was_queued = job.is_queued;
    if (was_queued) job.queue->unlink(job);
  }
  if (was_queued) job.release();  // the pool's ownership; the pool will never see this job
  job.release();
}

void BlockingPool::serve(Queue& queue) noexcept {
  std::unique_lock lock(queue.mutex);
  for (;;) {
    queue.changed.wait(lock, [&] { return queue.ended || queue.oldest != nullptr; });
    if (queue.ended) return;
    Job& job = *queue.oldest;
    queue.unlink(job);
    lock.unlock();
    job.work(job);
    if (!job.home.post(job)) job.release();
    lock.lock();
  }
}

void BlockingPool::Job::delivered(Letter& letter) noexcept {
  Job& job = static_cast<Job&>(letter);
  // The caller is the other owner and may release the job while it runs; the job exists until this release().
  const std::coroutine_handle<> caller = std::exchange(job.caller, nullptr);
  if (caller) caller.resume();
  job.release();
}

}  // namespace sluice::core
