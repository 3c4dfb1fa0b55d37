#pragma once

#include <chrono>
#include <concepts>
#include <coroutine>
#include <cstddef>
#include <exception>
#include <expected>
#include <functional>
#include <memory>
#include <new>
#include <string_view>
#include <type_traits>
#include <typeindex>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/result.h"
#include "base/time.h"
#include "core/arena.h"
#include "core/blocking_pool.h"
#include "core/here.h"
#include "core/inbox.h"
#include "core/sleep.h"
#include "core/task.h"
#include "msg/groups.h"
#include "msg/payload.h"
#include "msg/service.h"
#include "msg/sessions.h"

namespace sluice::msg {

// g++ 12 destroys the closure of an unnamed lambda in a co_await expression twice, so functions that are awaited must
// not be passed like that, unless their destructor does nothing. `Fn` is what a forwarding reference was deduced as.
#if defined(__GNUC__) && !defined(__clang__)
template <class Fn>
inline constexpr bool may_be_awaited = std::is_lvalue_reference_v<Fn> || std::is_trivially_destructible_v<Fn>;
#else
template <class Fn>
inline constexpr bool may_be_awaited = true;
#endif

// Gives a service access to its core, the sessions of that core, and the other services, here and on other cores. It
// belongs to one core.
class Context {
 public:
  // `tasks`: the tasks of the services. `contexts`: of all cores, complete when the services start.
  Context(const core::Here& here, core::TaskGroup& tasks, Sessions& sessions, std::vector<Context*>& contexts)
      : here_(here),
        tasks_(tasks),
        sessions_(sessions),
        contexts_(contexts),
        posted_(here.mailbox, most_posted, Run{}) {
    sessions.set_mesh(&here.mesh);
  }
  Context(const Context&) = delete;

  [[nodiscard]] unsigned core() const { return here_.mesh.core(); }
  [[nodiscard]] unsigned cores() const { return static_cast<unsigned>(contexts_.size()); }
  [[nodiscard]] core::Reactor& reactor() { return here_.reactor; }
  [[nodiscard]] Sessions& sessions() { return sessions_; }
  // Memory for the rest of this turn of the loop.
  [[nodiscard]] core::Arena& arena() { return sessions_.arena(); }

  // Writes a line to the program's log: at most 20 a second of each core, with the number of those left out.
  void log(std::string_view line) const;
  // Runs a task on this core. It is cancelled after Service::stop(). An exception from it is logged.
  void spawn(core::Task<void> task) { tasks_.spawn(guarded_task(std::move(task))); }
  // Calls `fn` on this core again and again, for the first time after one interval. An exception from `fn` is logged.
  template <std::invocable Fn>
  void every(Duration interval, Fn fn) {
    spawn(repeat(here_.reactor, interval, std::move(fn)));
  }
  // Runs work that blocks on a thread of the pool: see core::BlockingPool.
  template <class Work>
  [[nodiscard]] auto block(Work&& work) {
    static_assert(may_be_awaited<Work>, "with g++, name the function: auto work = ...; co_await block(work)");
    return here_.threads.run(here_.mailbox, std::decay_t<Work>(std::forward<Work>(work)));
  }

  // Calls fn() on this core. May be called from any thread, which must end before the core does; the first call
  // of a burst wakes the core. Returns false, and destroys `fn`, if `most_posted` wait already, or the core is ending.
  // An exception from `fn` is logged.
  using Posted = std::move_only_function<void()>;
  static constexpr std::size_t most_posted = 1024;
  [[nodiscard]] bool post_from_anywhere(Posted fn) noexcept { return posted_.try_push(std::move(fn)); }

  // The service of this type on this core; null if the host has none.
  template <std::derived_from<Service> T>
  [[nodiscard]] T* find() {
    for (const Entry& entry : services_) {
      if (entry.type == typeid(T)) return static_cast<T*>(entry.service.get());
    }
    return nullptr;
  }

  // Each of these reaches the service of type T on another core, or on this one, in a later step of its loop. The host
  // must have this service; otherwise they throw std::logic_error. `fn` must not own memory of this core's slab, such
  // as a SessionRef. An exception from `fn`, or from a Task that it returns, is logged; call() passes it on.

  // Calls fn(service) there, and drops its result. Returns false if the ring to that core is full, or it is ending.
  template <std::derived_from<Service> T, std::invocable<T&> Fn>
  [[nodiscard]] bool try_post(unsigned core, Fn fn) {
    require<T>();
    return here_.mesh.try_post(core, guarded<T>(std::move(fn)));
  }
  // Result<void> accepted = co_await context.post<T>(core, deadline, fn): waits while the ring is full. Errors as for
  // core::MeshPort::post().
  template <std::derived_from<Service> T, std::invocable<T&> Fn>
  [[nodiscard]] auto post(unsigned core, Instant deadline, Fn&& fn) {
    static_assert(may_be_awaited<Fn>,
                  "with g++, name the function: auto fn = ...; co_await post<T>(core, deadline, fn)");
    require<T>();
    return here_.mesh.post(core, deadline, guarded<T>(std::decay_t<Fn>(std::forward<Fn>(fn))));
  }
  // Result<R> result = co_await context.call<T>(core, deadline, fn): returns what fn(service) returns; a Task is
  // awaited there. Throws an exception that `fn` has thrown. Errors as for core::MeshPort::call().
  template <std::derived_from<Service> T, std::invocable<T&> Fn>
  [[nodiscard]] auto call(unsigned core, Instant deadline, Fn&& fn) {
    static_assert(may_be_awaited<Fn>,
                  "with g++, name the function: auto fn = ...; co_await call<T>(core, deadline, fn)");
    require<T>();
    return CallAwaiter(here_.mesh, core, deadline, caught<T>(std::decay_t<Fn>(std::forward<Fn>(fn))));
  }
  // Calls a copy of fn(service) on every core, and here at once. The others get it when their ring has room, except for
  // cores that are ending. Returns false if a core is left out because `most_kept` messages already wait for it.
  template <std::derived_from<Service> T, std::copy_constructible Fn>
  bool on_every_core(Fn fn) {
    require<T>();
    const bool sent = send_to_others(guarded<T>(fn));
    fn(*find<T>());
    return sent;
  }
  // Sends one frame to all sessions of all cores, except of cores that on_every_core() would leave out; returns false
  // like it. The frame is encoded once.
  bool broadcast(const Frame& frame) { return broadcast(make_payload(frame)); }
  bool broadcast(Payload payload);
  // Sends one frame to all sessions of all cores that have joined the group; otherwise as above.
  bool broadcast(std::string_view group, const Frame& frame) { return broadcast(group, make_payload(frame)); }
  bool broadcast(std::string_view group, Payload payload);
  // A session of this core hears what is sent to the group, until it leaves or ends. It may be in a thousand; join()
  // returns false beyond that.
  bool join(Session& session, std::string_view group) { return groups_.join(session, group); }
  void leave(Session& session, std::string_view group) { groups_.leave(session, group); }
  // The groups of this core's sessions.
  [[nodiscard]] const Groups& groups() const { return groups_; }

  // For the host: adds a service of this core.
  template <std::derived_from<Service> T>
  void add(std::unique_ptr<T> service) {
    services_.push_back({typeid(T), std::move(service)});
  }
  struct Entry {
    std::type_index type;
    std::unique_ptr<Service> service;
  };
  [[nodiscard]] std::vector<Entry>& services() { return services_; }
  // For the host, when a session has ended and the services know it.
  void leave_all(Session& session) { groups_.leave_all(session); }

 private:
  // A core that is stuck or slow may not collect messages without a limit.
  static constexpr std::size_t most_kept = 16 * 1024;

  // Logs and returns false if a core gets none, because too many wait for it.
  template <class Fn>
  bool send_to_others(const Fn& fn) {
    bool sent = true;
    for (unsigned other = 0; other < cores(); ++other) {
      if (other == core()) continue;
      if (here_.mesh.kept(other) < most_kept) {
        (void)here_.mesh.send(other, Fn(fn));
      } else {
        log_left_out(other);
        sent = false;
      }
    }
    return sent;
  }
  void log_left_out(unsigned core) const;
  template <class T>
  void require() {
    if (find<T>() == nullptr) throw_missing(typeid(T).name());
  }
  [[noreturn]] static void throw_missing(const char* type);
  static void log_failure(const char* what, const std::exception& error);

  template <class T, class Fn>
  auto at(Fn fn) {
    return [contexts = &contexts_, fn = std::move(fn)](core::MeshPort& there) mutable {
      return fn(*(*contexts)[there.core()]->template find<T>());
    };
  }
  template <class T, class Fn>
  auto guarded(Fn fn) {
    if constexpr (std::is_same_v<std::invoke_result_t<Fn&, T&>, core::Task<void>>) {
      return [call = at<T>(std::move(fn))](core::MeshPort& there) mutable { return guarded_task(call(there)); };
    } else {
      return [call = at<T>(std::move(fn))](core::MeshPort& there) mutable {
        try {
          (void)call(there);
        } catch (const std::exception& error) {
          log_failure("a function from another core", error);
        }
      };
    }
  }
  // Returns the result of fn(service), or its exception.
  template <class T, class Fn>
  auto caught(Fn fn) {
    using Returned = std::invoke_result_t<Fn&, T&>;
    using Caught = std::expected<typename core::detail::Awaited<Returned>::Value, std::exception_ptr>;
    return [call = at<T>(std::move(fn))](core::MeshPort& there) mutable {
      if constexpr (core::detail::Awaited<Returned>::waits) {
        return caught_task<Caught>(call(there));
      } else {
        try {
          if constexpr (std::is_void_v<Returned>) {
            call(there);
            return Caught{};
          } else {
            return Caught(call(there));
          }
        } catch (const std::bad_alloc&) {
          throw;
        } catch (...) {
          return Caught(std::unexpect, std::current_exception());
        }
      }
    };
  }
  template <class Caught, class Awaitable>
  static core::Task<Caught> caught_task(Awaitable task) {
    try {
      if constexpr (std::is_void_v<typename Caught::value_type>) {
        co_await std::move(task);
        co_return Caught{};
      } else {
        co_return Caught(co_await std::move(task));
      }
    } catch (const std::bad_alloc&) {
      throw;
    } catch (...) {
      co_return Caught(std::unexpect, std::current_exception());
    }
  }
  // Awaits a call of a function that caught() has made, and throws its exception.
  template <class Fn>
  class CallAwaiter {
   public:
    CallAwaiter(core::MeshPort& mesh, unsigned core, Instant deadline, Fn fn)
        : call_(mesh.call(core, deadline, std::move(fn))) {}
    bool await_ready() { return call_.await_ready(); }
    void await_suspend(std::coroutine_handle<> caller) { call_.await_suspend(caller); }
    auto await_resume() {
      auto result = call_.await_resume();
      using Value = typename decltype(result)::value_type::value_type;
      if (!result) return Result<Value>(std::unexpected(result.error()));
      if (!*result) std::rethrow_exception(std::move(result->error()));
      if constexpr (std::is_void_v<Value>) {
        return Result<Value>{};
      } else {
        return Result<Value>(std::move(**result));
      }
    }

   private:
    decltype(std::declval<core::MeshPort&>().call(0u, Instant{}, std::declval<Fn>())) call_;
  };
  static core::Task<void> guarded_task(core::Task<void> task) {
    try {
      co_await std::move(task);
    } catch (const std::exception& error) {
      log_failure("a task", error);
    }
  }
  template <class Fn>
  static core::Task<void> repeat(core::Reactor& reactor, Duration interval, Fn fn) {
    for (;;) {
      co_await core::Sleep(reactor, reactor.now() + interval);
      try {
        fn();
      } catch (const std::exception& error) {
        log_failure("a periodic function", error);
      }
    }
  }

  const core::Here here_;
  core::TaskGroup& tasks_;
  Sessions& sessions_;
  Groups groups_;
  std::vector<Context*>& contexts_;
  std::vector<Entry> services_;
  struct Run {
    void operator()(Posted&& fn) const noexcept {
      try {
        fn();
      } catch (const std::exception& error) {
        log_failure("a function from another thread", error);
      }
    }
  };
  core::Inbox<Posted, Run> posted_;
};

}  // namespace sluice::msg
