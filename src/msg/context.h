#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <functional>
#include <memory>
#include <type_traits>
#include <typeindex>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/result.h"
#include "base/time.h"
#include "core/arena.h"
#include "core/blocking_pool.h"
#include "core/core.h"
#include "core/sleep.h"
#include "core/task.h"
#include "msg/payload.h"
#include "msg/service.h"
#include "msg/sessions.h"

namespace sluice::msg {

// Gives a service access to its core, the sessions of that core, and the other services, here and on other cores. It
// belongs to one core.
class Context {
 public:
  Context(core::Core& core, Sessions& sessions, core::BlockingPool& threads, std::vector<Context*>& contexts)
      : core_(core), sessions_(sessions), threads_(threads), contexts_(contexts) {}
  Context(const Context&) = delete;

  [[nodiscard]] unsigned core() const { return core_.index(); }
  [[nodiscard]] unsigned cores() const { return static_cast<unsigned>(contexts_.size()); }
  [[nodiscard]] core::Reactor& reactor() { return core_.reactor(); }
  [[nodiscard]] Sessions& sessions() { return sessions_; }
  // Memory for the rest of this turn of the loop.
  [[nodiscard]] core::Arena& arena() { return sessions_.arena(); }

  // Runs a task on this core. It is cancelled when the core ends.
  void spawn(core::Task<void> task) { core_.tasks().spawn(std::move(task)); }
  // Calls `fn` on this core again and again, for the first time after one interval.
  template <std::invocable Fn>
  void every(Duration interval, Fn fn) {
    spawn(repeat(core_.reactor(), interval, std::move(fn)));
  }
  // Runs work that blocks on a thread of the pool: see core::BlockingPool. `work` is a named variable that is moved in.
  template <class Work>
  [[nodiscard]] auto block(Work work) {
    return threads_.run(core_.mailbox(), std::move(work));
  }

  // The service of this type on this core; null if the host has none.
  template <std::derived_from<Service> T>
  [[nodiscard]] T* find() {
    for (const Entry& entry : services_) {
      if (entry.type == typeid(T)) return static_cast<T*>(entry.service.get());
    }
    return nullptr;
  }

  // Each of these reaches the service of type T on another core, or on this one, in a later step of its loop. The host
  // must have this service. `fn` must not own memory of this core's slab, such as a SessionRef.

  // Calls fn(service) there, and drops its result. Returns false if the ring to that core is full, or it is ending.
  template <std::derived_from<Service> T, std::invocable<T&> Fn>
  [[nodiscard]] bool try_post(unsigned core, Fn fn) {
    return core_.mesh().try_post(core, at<T>(std::move(fn)));
  }
  // Result<void> accepted = co_await context.post<T>(core, deadline, fn): waits while the ring is full. Errors as for
  // core::MeshPort::post().
  template <std::derived_from<Service> T, std::invocable<T&> Fn>
  [[nodiscard]] auto post(unsigned core, Instant deadline, Fn fn) {
    return core_.mesh().post(core, deadline, at<T>(std::move(fn)));
  }
  // Result<R> result = co_await context.call<T>(core, deadline, fn): returns what fn(service) returns; a Task is
  // awaited there. Errors as for core::MeshPort::call().
  template <std::derived_from<Service> T, std::invocable<T&> Fn>
  [[nodiscard]] auto call(unsigned core, Instant deadline, Fn fn) {
    return core_.mesh().call(core, deadline, at<T>(std::move(fn)));
  }
  // Calls a copy of fn(service) on every core, and here at once. The others get it when their ring has room. Cores that
  // are ending, or have no room for `longest_wait`, are left out.
  template <std::derived_from<Service> T, std::copy_constructible Fn>
  void on_every_core(Fn fn) {
    for (unsigned other = 0; other < cores(); ++other) {
      if (other != core() && !try_post<T>(other, fn)) spawn(post_later<T>(*this, other, fn));
    }
    fn(*find<T>());
  }
  // Sends one frame to all sessions of all cores, except of cores that on_every_core() would leave out. It is encoded
  // once.
  void broadcast(const Frame& frame) { broadcast(make_payload(frame)); }
  void broadcast(Payload payload);

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

 private:
  // Each message that waits for room is a task, so a core that is stuck may not collect them without a limit.
  static constexpr Duration longest_wait = std::chrono::seconds(5);

  template <class T, class Fn>
  auto at(Fn fn) {
    return [contexts = &contexts_, fn = std::move(fn)](core::MeshPort& there) mutable {
      return fn(*(*contexts)[there.core()]->template find<T>());
    };
  }
  template <class Fn>
  static core::Task<void> repeat(core::Reactor& reactor, Duration interval, Fn fn) {
    for (;;) {
      co_await core::Sleep(reactor, reactor.now() + interval);
      fn();
    }
  }
  template <class T, class Fn>
  static core::Task<void> post_later(Context& context, unsigned core, Fn fn) {
    (void)co_await context.post<T>(core, context.core_.reactor().now() + longest_wait, std::move(fn));
  }
  static core::Task<void> broadcast_later(Context& context, unsigned core, Payload payload);

  core::Core& core_;
  Sessions& sessions_;
  core::BlockingPool& threads_;
  std::vector<Context*>& contexts_;  // of all cores; complete when the cores run
  std::vector<Entry> services_;
};

}  // namespace sluice::msg
