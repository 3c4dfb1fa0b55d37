#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sluice::sql {

// Receives the tables that a commit has changed, on the writer's thread. The writer waits until committed() returns.
class CommitObserver {
 public:
  virtual ~CommitObserver() = default;
  virtual void committed(std::span<const std::string> tables) noexcept = 0;
};

// The observers of the commits to one file, by any writer of this process. Several databases of the configuration may
// use the same file, and a reload may replace a writer while the old one still works. Thread-safe.
class CommitObservers {
 public:
  void add(std::shared_ptr<CommitObserver> observer) {
    const std::lock_guard lock(mutex_);
    all_.push_back(std::move(observer));
  }
  // After this returns, the observer is not called any more.
  void remove(const CommitObserver* observer) {
    const std::lock_guard lock(mutex_);
    std::erase_if(all_, [observer](const auto& one) { return one.get() == observer; });
  }
  void committed(std::span<const std::string> tables) {
    version_.fetch_add(1, std::memory_order_release);
    if (tables.empty()) return;
    const std::lock_guard lock(mutex_);
    for (const auto& observer : all_) observer->committed(tables);
  }
  // Changes with every commit, before anybody can learn of the commit. A snapshot that is older than the latest change
  // must not be used for a new request.
  [[nodiscard]] std::uint64_t version() const { return version_.load(std::memory_order_acquire); }

 private:
  std::atomic<std::uint64_t> version_{0};
  mutable std::mutex mutex_;  // guards all_
  std::vector<std::shared_ptr<CommitObserver>> all_;
};

}  // namespace sluice::sql
