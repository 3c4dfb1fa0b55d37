#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

namespace sluice::core {

// An immutable value that is replaced as a whole, and which every core reads. A read that begins after publish() has
// returned gives that value or a newer one, on every core, whatever it is doing: there is nothing to wait for, and no
// core that is late. A core keeps the value it read last until it reads again; where that is too much memory to keep,
// or somebody waits for the value, the publisher also sends a message (Sharded::each) that makes it read.
template <class T>
class Current {
 public:
  explicit Current(std::shared_ptr<const T> first = nullptr) : latest_(std::move(first)) {}
  Current(const Current&) = delete;

  // May be called from any thread, as latest().
  void publish(std::shared_ptr<const T> value) {
    const std::lock_guard lock(mutex_);
    latest_.swap(value);
    version_.fetch_add(1, std::memory_order_release);
  }
  [[nodiscard]] std::shared_ptr<const T> latest() const {
    const std::lock_guard lock(mutex_);
    return latest_;
  }

  // One core's view. A read costs a look at a counter that changes when a value is published.
  class View {
   public:
    explicit View(std::shared_ptr<const Current> of) : of_(std::move(of)) { catch_up(); }

    [[nodiscard]] const std::shared_ptr<const T>& get() {
      if (of_->version_.load(std::memory_order_acquire) != version_) [[unlikely]]
        catch_up();
      return value_;
    }

   private:
    void catch_up() {
      const std::lock_guard lock(of_->mutex_);
      value_ = of_->latest_;
      version_ = of_->version_.load(std::memory_order_relaxed);
    }

    std::shared_ptr<const Current> of_;
    std::shared_ptr<const T> value_;
    std::uint64_t version_ = 0;
  };

 private:
  mutable std::mutex mutex_;  // held for the copy of a pointer
  std::shared_ptr<const T> latest_;
  std::atomic<std::uint64_t> version_{0};
};

}  // namespace sluice::core
