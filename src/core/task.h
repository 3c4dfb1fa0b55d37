#pragma once

#include <coroutine>
#include <exception>
#include <optional>
#include <utility>
#include <variant>

#include "base/assert.h"
#include "core/slab.h"

// Coroutines of one core. A Task starts when it is awaited and resumes its awaiter when it is done. Destroying a Task
// cancels it; this is allowed whenever it is suspended, because awaiters unlink themselves in their destructors. Frames
// are allocated in the thread's slab. Foreseeable failures are Results. Any exception (std::bad_alloc) is rethrown in
// the awaiter; if it leaves a task without an awaiter, the program ends.
namespace sluice::core {

template <class T>
class Task;

namespace detail {

struct PromiseBase : SlabAllocated {
  struct Final {
    bool await_ready() noexcept { return false; }
    template <class Promise>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> self) noexcept {
      return self.promise().continuation;
    }
    void await_resume() noexcept {}
  };

  std::suspend_always initial_suspend() noexcept { return {}; }
  Final final_suspend() noexcept { return {}; }
  void unhandled_exception() noexcept { thrown = std::current_exception(); }
  void rethrow() {
    if (thrown) [[unlikely]]
      std::rethrow_exception(std::move(thrown));
  }

  std::coroutine_handle<> continuation = std::noop_coroutine();
  std::exception_ptr thrown;
};

template <class T>
struct Promise : PromiseBase {
  Task<T> get_return_object() noexcept;
  template <class U>
  void return_value(U&& value) {
    result.emplace(std::forward<U>(value));
  }
  std::optional<T> result;
};

template <>
struct Promise<void> : PromiseBase {
  Task<void> get_return_object() noexcept;
  void return_void() noexcept {}
};

}  // namespace detail

template <class T = void>
class [[nodiscard]] Task {
 public:
  using promise_type = detail::Promise<T>;
  using Handle = std::coroutine_handle<promise_type>;

  Task() = default;
  explicit Task(Handle frame) : frame_(frame) {}
  Task(Task&& other) noexcept : frame_(std::exchange(other.frame_, nullptr)) {}
  Task& operator=(Task&& other) noexcept {
    if (this != &other) {
      if (frame_) frame_.destroy();
      frame_ = std::exchange(other.frame_, nullptr);
    }
    return *this;
  }
  ~Task() {
    if (frame_) frame_.destroy();
  }

  explicit operator bool() const { return static_cast<bool>(frame_); }

  auto operator co_await() && noexcept {
    struct Awaiter {
      Handle frame;
      bool await_ready() noexcept { return false; }
      std::coroutine_handle<> await_suspend(std::coroutine_handle<> caller) noexcept {
        frame.promise().continuation = caller;
        return frame;
      }
      T await_resume() {
        frame.promise().rethrow();
        if constexpr (!std::is_void_v<T>) return std::move(*frame.promise().result);
      }
    };
    SLUICE_ASSERT(frame_);
    return Awaiter{frame_};
  }

 private:
  Handle frame_{};
};

template <class T>
Task<T> detail::Promise<T>::get_return_object() noexcept {
  return Task<T>(std::coroutine_handle<Promise>::from_promise(*this));
}
inline Task<void> detail::Promise<void>::get_return_object() noexcept {
  return Task<void>(std::coroutine_handle<Promise>::from_promise(*this));
}

// A value that is available now, or the Task that will produce it. An available value needs no coroutine frame.
template <class T>
class [[nodiscard]] Async {
 public:
  Async(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // a value converts to an Async
  Async(Task<T> task) : state_(std::in_place_index<1>, std::move(task)) {}  // NOLINT: likewise
  template <class U>
    requires(std::is_constructible_v<T, U> && !std::is_same_v<std::remove_cvref_t<U>, Async> &&
             !std::is_same_v<std::remove_cvref_t<U>, Task<T>> && !std::is_same_v<std::remove_cvref_t<U>, T>)
  Async(U&& value) : state_(std::in_place_index<0>, std::forward<U>(value)) {}  // NOLINT: e.g. std::unexpected

  [[nodiscard]] bool ready() const { return state_.index() == 0; }
  // Precondition: ready().
  [[nodiscard]] T& get() { return *std::get_if<0>(&state_); }
  // Precondition: ready().
  [[nodiscard]] T take() { return std::move(*std::get_if<0>(&state_)); }
  // Precondition: !ready().
  [[nodiscard]] Task<T> take_task() { return std::move(*std::get_if<1>(&state_)); }

  // The Async must outlive the co_await, as a temporary in the same expression does.
  auto operator co_await() && noexcept {
    struct Awaiter {
      Async& self;
      typename Task<T>::Handle frame{};
      bool await_ready() noexcept { return self.ready(); }
      std::coroutine_handle<> await_suspend(std::coroutine_handle<> caller) noexcept {
        frame = self.frame();
        frame.promise().continuation = caller;
        return frame;
      }
      T await_resume() {
        if (!frame) return self.take();
        frame.promise().rethrow();
        return std::move(*frame.promise().result);
      }
    };
    return Awaiter{*this};
  }

 private:
  typename Task<T>::Handle frame();

  std::variant<T, Task<T>> state_;
};

template <class T>
typename Task<T>::Handle Async<T>::frame() {
  // Only a Task's own awaiter has access to its handle, so the Async's awaiter holds that awaiter.
  return std::move(*std::get_if<1>(&state_)).operator co_await().frame;
}

// Owns and runs Tasks that have no awaiter. Destroying the group cancels the suspended ones.
class TaskGroup {
  struct Link {
    Link* next = nullptr;
    Link* previous = nullptr;
    TaskGroup* group = nullptr;
    void unlink() {
      next->previous = previous;
      previous->next = next;
      --group->size_;
    }
  };

 public:
  using Member = Link;

  TaskGroup() { head_.next = head_.previous = &head_; }
  TaskGroup(const TaskGroup&) = delete;
  ~TaskGroup() { cancel(); }

  // Starts `task` now and runs it until it first suspends. `member` is set before that, and refers to the task until it
  // ends.
  void spawn(Task<void> task, Member** member = nullptr) {
    Root root = run(std::move(task));
    Link& link = root.handle.promise();
    if (member != nullptr) *member = &link;
    link.previous = head_.previous;
    link.next = &head_;
    link.previous->next = link.next->previous = &link;
    ++size_;
    link.group = this;
    root.handle.resume();
  }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }

  // Destroys every Task of the group, oldest first. Must not be called from one of them.
  void cancel() {
    while (head_.next != &head_) cancel(*head_.next);
  }
  // Destroys this member's Task. Must not be called from that Task.
  static void cancel(Member& member) {
    auto& promise = static_cast<RootPromise&>(member);
    promise.unlink();
    std::coroutine_handle<RootPromise>::from_promise(promise).destroy();
  }

 private:
  struct Root;
  struct RootPromise : Link, SlabAllocated {
    Root get_return_object() noexcept { return {std::coroutine_handle<RootPromise>::from_promise(*this)}; }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept {
      unlink();
      return {};
    }
    void return_void() noexcept {}
    [[noreturn]] void unhandled_exception() noexcept { std::terminate(); }
  };
  struct Root {
    using promise_type = RootPromise;
    std::coroutine_handle<RootPromise> handle;
  };
  static Root run(Task<void> task) { co_await std::move(task); }

  Link head_;
  std::size_t size_ = 0;
};

}  // namespace sluice::core
