#pragma once

#include <atomic>
#include <cerrno>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/result.h"
#include "core/errands.h"
#include "core/reactor.h"
#include "core/slab.h"
#include "core/spsc_ring.h"
#include "core/task.h"

// How the cores of one process communicate: every core has a ring to every other core, which carries callables. An
// accepted message runs on the receiver, in the order in which its sender posted. A message to a core that is ending is
// refused. A message's captures are destroyed on the receiving core, so they must not own slab memory.
namespace sluice::core {

class MeshPort;

namespace detail {

// One callable, called with the receiving port. It fills a cache line: small captures are stored in it, larger ones on
// the heap.
class alignas(64) Message {
 public:
  template <class Fn>
  explicit Message(Fn&& fn) {
    using Held = std::remove_cvref_t<Fn>;
    if constexpr (fits<Held>) {
      ::new (static_cast<void*>(bytes_)) Held(std::forward<Fn>(fn));
    } else {
      ::new (static_cast<void*>(bytes_)) Held*(new Held(std::forward<Fn>(fn)));
    }
    ops_ = &ops_of<Held>;
  }
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;
  ~Message() { ops_->destroy(bytes_); }

  void run(MeshPort& here) noexcept { ops_->run(bytes_, here); }

 private:
  static constexpr std::size_t inline_bytes = 56;
  template <class Held>
  static constexpr bool fits = sizeof(Held) <= inline_bytes;

  struct Ops {
    void (*run)(std::byte*, MeshPort&) noexcept;
    void (*destroy)(std::byte*) noexcept;
  };
  template <class Held>
  static Held& held(std::byte* bytes) {
    if constexpr (fits<Held>) {
      return *std::launder(reinterpret_cast<Held*>(bytes));
    } else {
      return **std::launder(reinterpret_cast<Held**>(bytes));
    }
  }
  template <class Held>
  static void run_held(std::byte* bytes, MeshPort& here) noexcept {
    held<Held>(bytes)(here);
  }
  template <class Held>
  static void destroy_held(std::byte* bytes) noexcept {
    if constexpr (fits<Held>) {
      held<Held>(bytes).~Held();
    } else {
      delete &held<Held>(bytes);
    }
  }
  template <class Held>
  static constexpr Ops ops_of{run_held<Held>, destroy_held<Held>};

  std::byte bytes_[inline_bytes];
  const Ops* ops_;
};

// Calls `fn` with the port of its core if it takes one.
template <class Fn>
decltype(auto) invoke_at(MeshPort& here, Fn& fn) {
  if constexpr (std::is_invocable_v<Fn&, MeshPort&>) {
    return fn(here);
  } else {
    return fn();
  }
}
template <class Fn>
using Returned = decltype(invoke_at(std::declval<MeshPort&>(), std::declval<Fn&>()));

template <class T>
struct Awaited {
  using Value = T;
  static constexpr bool waits = false;
};
template <class T>
struct Awaited<Task<T>> {
  using Value = T;
  static constexpr bool waits = true;
};
template <class T>
struct Awaited<Async<T>> {
  using Value = T;
  static constexpr bool waits = true;
};

}  // namespace detail

// State that the cores share: the rings, and whether each core may be asleep or is ending. All ports must be
// constructed before any is used. The mesh and all reactors must outlive all ports.
class Mesh {
 public:
  // Each ring has room for `ring_capacity` messages of 64 bytes; a power of two. One core has at most `most_calls`
  // calls to one core outstanding, which bounds the answers that wait there for room.
  explicit Mesh(unsigned count, std::size_t ring_capacity = 256, std::uint32_t most_calls = 4096);
  Mesh(const Mesh&) = delete;
  Mesh& operator=(const Mesh&) = delete;
  ~Mesh();

  [[nodiscard]] unsigned size() const { return count_; }

 private:
  friend class MeshPort;

  struct Link {
    explicit Link(std::size_t capacity) : ring(capacity) {}
    SpscRing<detail::Message> ring;
    alignas(64) std::atomic<bool> sender_waits{false};  // for room; the receiver clears it and wakes the sender
    std::atomic<bool> sender_done{true};                // the sender will push nothing more
  };
  struct alignas(64) Station {
    std::atomic<bool> may_sleep{false};
    std::atomic<bool> ending{false};
    Reactor* reactor = nullptr;  // null until the port is constructed
  };

  [[nodiscard]] Link& link(unsigned from, unsigned to) { return *links_[from * count_ + to]; }
  // Wakes the core for a message, room or an acknowledgement. The caller has published it and then issued a fence.
  void wake(unsigned core) noexcept;

  const unsigned count_;
  const std::uint32_t most_calls_;
  std::vector<std::unique_ptr<Link>> links_;
  std::unique_ptr<Station[]> stations_;
  alignas(64) std::atomic<unsigned> endings_{0};  // the number of ending stations, in one word for polling
};

// One core's end of the mesh. Only the owning core may use it.
class MeshPort {
 public:
  MeshPort(Mesh& mesh, unsigned core, Reactor& reactor);
  MeshPort(const MeshPort&) = delete;
  MeshPort& operator=(const MeshPort&) = delete;
  ~MeshPort();

  [[nodiscard]] unsigned core() const { return core_; }
  [[nodiscard]] unsigned size() const { return mesh_.size(); }
  // False if that core is ending and will refuse every message.
  [[nodiscard]] bool open(unsigned core) const { return peers_[core].open; }

  [[nodiscard]] Errands& errands() { return errands_; }

  // Runs `fn` on that core, which may be this one, in a later step of its loop: as `fn()`, or as `fn(port)` with the
  // port of that core. An exception from `fn` ends the program. A `fn` that returns Task<void> is moved into the
  // receiver's frame and lives until the Task is done. Returns false if the ring is full, other messages already wait
  // for room, or that core is ending; `fn` is then unchanged.
  template <class Fn>
  [[nodiscard]] bool try_post(unsigned core, Fn&& fn) {
    return has_room(core) && try_push(core, Posted<std::remove_cvref_t<Fn>>{std::forward<Fn>(fn)});
  }

  // Like try_post, but while the ring is full the message is kept, and sent in its order as soon as there is room.
  // Returns false, and drops `fn`, if that core is ending; a kept message is dropped if that core ends before it has
  // room. The sender must limit how many are kept(). Throws std::bad_alloc if it cannot be kept.
  template <class Fn>
  bool send(unsigned core, Fn&& fn) {
    push_or_keep(core, Posted<std::remove_cvref_t<Fn>>{std::forward<Fn>(fn)});
    return open(core);
  }
  // Whether a message to any core waits for room.
  [[nodiscard]] bool waits() const { return waiting_ != 0; }
  // How many messages to that core wait for room.
  [[nodiscard]] std::size_t kept(unsigned core) const { return peers_[core].kept; }

  // Result<void> accepted = co_await port.post(core, deadline, fn): like try_post, but waits while the ring is full.
  // Errc::closed: that core is ending. Errc::timed_out: the deadline passed first; `fn` never runs.
  template <class Fn>
  [[nodiscard]] auto post(unsigned core, Instant deadline, Fn fn);

  // Runs `fn` on that core and returns its result; a Task or an Async is awaited there. Errc::closed: that core is
  // ending, or ended before `fn` was done. Errc::timed_out: the deadline passed first. Errc::limit: too many calls to
  // that core are outstanding. Errc::system with ENOMEM: that core had no memory for the call. Any other exception from
  // `fn` ends the program. If the caller times out or is destroyed, the result is dropped: `fn` never runs if it still
  // waits for room; if it has been sent, it finishes, and the call is outstanding until its answer arrives.
  template <class Fn>
  [[nodiscard]] auto call(unsigned core, Instant deadline, Fn fn);

  // For the core's loop. Each step calls drain(), prepare_to_sleep(), the reactor's turn, awake(). Hooks at the end of
  // the turn wake the receivers of posted messages.
  void drain() noexcept;                           // runs arrived messages, pushes messages that wait for room
  [[nodiscard]] bool prepare_to_sleep() noexcept;  // false: there is work already
  void awake() noexcept { mesh_.stations_[core_].may_sleep.store(false, std::memory_order_relaxed); }

  // Shutdown, in this order: refuse_new(); steps of the loop until quiet() is true (every peer knows, and its messages
  // have run); cancel_served(), which answers the calls that still run here with Errc::closed; steps until flushed() is
  // true; end().
  void refuse_new() noexcept;
  [[nodiscard]] bool quiet() noexcept;
  void cancel_served() { served_.cancel(); }
  [[nodiscard]] bool flushed() const { return waiting_ == 0; }
  void end() noexcept;

 private:
  using Ring = SpscRing<detail::Message>;

  // A message that waits for room in a ring.
  struct Pending {
    using Push = bool (*)(Pending&, Ring&);
    using Done = void (*)(Pending&, bool accepted) noexcept;
    Pending(Push push, Done done) : push(push), done(done) {}
    Pending(const Pending&) = delete;

    Push push;
    Done done;
    Pending* next = nullptr;
    Pending* previous = nullptr;
    unsigned to = 0;
    bool linked = false;
  };
  struct Peer {
    bool open = false;        // messages to it are accepted
    bool dirty = false;       // this core has posted messages to it since the last flush
    std::uint32_t calls = 0;  // outstanding, at most Mesh::most_calls_
    std::uint32_t kept = 0;   // messages that wait for room
    Pending* oldest = nullptr;
    Pending* newest = nullptr;
  };

  // The other core names this core's call by a ticket, the index of its slot, because the call may no longer exist when
  // its answer arrives. The slot is taken until then.
  using Ticket = std::uint32_t;
  struct Call {
    Ticket ticket = 0;
  };
  struct CallSlot {
    Call* call = nullptr;  // null: free, or the answer will be dropped
    unsigned to = 0;
    std::uint32_t next_free = 0;
  };

  template <class Fn>
  struct Posted;
  template <class Fn>
  class PostAwaiter;
  template <class Fn>
  struct Overflow;
  template <class Value>
  class Answer;
  template <class Value>
  struct Reply;
  template <class Value>
  struct FailedReply;
  template <class Value>
  class ReplyTo;
  template <class Fn, class Value>
  struct Request;
  template <class Fn>
  class CallAwaiter;

  // Messages that already wait for room go first.
  [[nodiscard]] bool has_room(unsigned core) {
    const Peer& peer = peers_[core];
    return peer.open && peer.oldest == nullptr && mesh_.link(core_, core).ring.has_room();
  }
  template <class Fn>
  bool try_push(unsigned core, Fn&& fn) {
    const Peer& peer = peers_[core];
    if (!peer.open || peer.oldest != nullptr) [[unlikely]]
      return false;
    if (!mesh_.link(core_, core).ring.try_emplace(std::forward<Fn>(fn))) [[unlikely]]
      return false;
    mark(core);
    return true;
  }
  // For messages that must not be refused because of a full ring. Dropped if that core is ending.
  template <class Fn>
  void push_or_keep(unsigned core, Fn fn);

  void flush() noexcept;
  void mark(unsigned core) {
    if (peers_[core].dirty) return;
    peers_[core].dirty = true;
    dirty_[dirty_count_++] = core;
    reactor_.at_turn_end(hook_);
  }
  void wait_for_room(unsigned core, Pending& pending) noexcept;
  void unlink(Pending& pending) noexcept;
  void push_waiting(unsigned core) noexcept;
  void refuse_waiting(unsigned core) noexcept;
  void acknowledge_endings() noexcept;

  [[nodiscard]] bool may_call(unsigned core) const {
    return peers_[core].open && peers_[core].calls < mesh_.most_calls_;
  }
  void enlist(Call& call, unsigned core);
  void abandon(const Call& call) noexcept { calls_[call.ticket].call = nullptr; }  // its answer will be dropped
  // Frees the slot, and returns the call; null if it was abandoned.
  Call* claim(Ticket ticket) noexcept;

  template <class Fn>
  static Task<void> keep_running(MeshPort& here, Fn fn) {
    co_await detail::invoke_at(here, fn);
  }

  struct Hook : TurnHook {
    explicit Hook(MeshPort& port) : TurnHook(run), port(port) {}
    static void run(TurnHook& hook) noexcept { static_cast<Hook&>(hook).port.flush(); }
    MeshPort& port;
  };

  Mesh& mesh_;
  const unsigned core_;
  Reactor& reactor_;
  Hook hook_;
  std::vector<Peer> peers_;
  std::vector<unsigned> dirty_;
  unsigned dirty_count_ = 0;
  std::size_t waiting_ = 0;  // Pendings of all peers
  unsigned seen_endings_ = 0;
  bool refusing_ = false;
  bool ended_ = false;
  std::vector<CallSlot> calls_;
  std::uint32_t free_call_ = 0;  // calls_.size(): the free list is empty
  Errands errands_{reactor_};
  TaskGroup served_;  // tasks started by messages from other cores
};

template <class Fn>
struct MeshPort::Posted {
  Fn fn;

  void operator()(MeshPort& here) {
    if constexpr (std::is_same_v<detail::Returned<Fn>, Task<void>>) {
      here.served_.spawn(keep_running(here, std::move(fn)));
    } else {
      detail::invoke_at(here, fn);
    }
  }
};

template <class Fn>
class MeshPort::PostAwaiter : Pending, Timer {
 public:
  PostAwaiter(MeshPort& port, unsigned core, Instant deadline, Fn&& fn)
      : Pending(push_it, done_it), Timer(expire), port_(port), core_(core), deadline_(deadline), fn_(std::move(fn)) {}
  ~PostAwaiter() {
    if (linked) port_.unlink(*this);
  }
  bool await_ready() {
    if (port_.try_push(core_, std::move(fn_))) {
      result_ = {};
      return true;
    }
    return !port_.open(core_);
  }
  void await_suspend(std::coroutine_handle<> caller) {
    caller_ = caller;
    port_.wait_for_room(core_, *this);
    port_.reactor_.timers().schedule(*this, deadline_);
  }
  Result<void> await_resume() const noexcept { return result_; }

 private:
  static bool push_it(Pending& pending, Ring& ring) {
    return ring.try_emplace(std::move(static_cast<PostAwaiter&>(pending).fn_));
  }
  static void done_it(Pending& pending, bool accepted) noexcept {
    auto& self = static_cast<PostAwaiter&>(pending);
    self.port_.reactor_.timers().cancel(self);
    if (accepted) self.result_ = {};
    self.caller_.resume();
  }
  static void expire(Timer& timer) noexcept {
    auto& self = static_cast<PostAwaiter&>(timer);
    self.port_.unlink(self);
    self.result_ = fail(Errc::timed_out);
    self.caller_.resume();
  }

  MeshPort& port_;
  const unsigned core_;
  const Instant deadline_;
  Fn fn_;
  std::coroutine_handle<> caller_;
  Result<void> result_ = fail(Errc::closed);
};

template <class Fn>
struct MeshPort::Overflow final : Pending, SlabAllocated {
  explicit Overflow(Fn&& given)
      : Pending([](Pending& self, Ring& ring) { return ring.try_emplace(std::move(static_cast<Overflow&>(self).fn)); },
                [](Pending& self, bool) noexcept { delete &static_cast<Overflow&>(self); }),
        fn(std::move(given)) {}
  Fn fn;
};

template <class Fn>
void MeshPort::push_or_keep(unsigned core, Fn fn) {
  if (try_push(core, std::move(fn)) || !open(core)) return;
  wait_for_room(core, *new Overflow<Fn>(std::move(fn)));
}

// The caller's side of a call. It is part of the caller's frame; the port refers to it by a ticket until it is settled.
template <class Value>
class MeshPort::Answer : protected Call, protected Timer {
 public:
  Answer(const Answer&) = delete;
  static Answer& of(Call& call) { return static_cast<Answer&>(call); }
  // The port has already removed the call.
  void settle(Result<Value>&& result) {
    port_.reactor_.timers().cancel(*this);
    result_.emplace(std::move(result));
    caller_.resume();
  }

 protected:
  Answer(MeshPort& port, Callback expire) : Timer(expire), port_(port) {}
  ~Answer() = default;

  MeshPort& port_;
  std::coroutine_handle<> caller_;  // null: the call has not begun
  std::optional<Result<Value>> result_;
};

template <class Value>
struct MeshPort::Reply {
  Ticket ticket;
  Result<Value> result;
  void operator()(MeshPort& home) {
    if (Call* call = home.claim(ticket)) Answer<Value>::of(*call).settle(std::move(result));
  }
};

// An error as the answer to a call. It fits into a message even if Value is large.
template <class Value>
struct MeshPort::FailedReply {
  Ticket ticket;
  Error error;
  void operator()(MeshPort& home) {
    if (Call* call = home.claim(ticket)) Answer<Value>::of(*call).settle(std::unexpected(error));
  }
};

// Sends the answer to a call from the core that serves it. The destructor answers Errc::closed if nothing was sent.
template <class Value>
class MeshPort::ReplyTo {
 public:
  ReplyTo(MeshPort& here, unsigned home, Ticket ticket) : here_(&here), home_(home), ticket_(ticket) {}
  ReplyTo(ReplyTo&& other) noexcept
      : here_(std::exchange(other.here_, nullptr)), home_(other.home_), ticket_(other.ticket_) {}
  ReplyTo& operator=(ReplyTo&&) = delete;
  ~ReplyTo() {
    if (here_ != nullptr) give({.code = Errc::closed});
  }
  void send(Result<Value> result) noexcept {
    try {
      here_->push_or_keep(home_, Reply<Value>{ticket_, std::move(result)});
      here_ = nullptr;
    } catch (const std::bad_alloc&) {
      give(out_of_memory);
    }
  }
  void give_out_of_memory() noexcept {
    if (here_ != nullptr) give(out_of_memory);
  }

 private:
  static constexpr Error out_of_memory{Errc::system, ENOMEM};

  // If the ring is full and there is no memory to wait for room, sends no answer; the call then ends at its deadline,
  // and stays outstanding.
  void give(Error error) noexcept {
    MeshPort& here = *std::exchange(here_, nullptr);
    try {
      here.push_or_keep(home_, FailedReply<Value>{ticket_, error});
    } catch (const std::bad_alloc&) {
    }
  }

  MeshPort* here_;
  unsigned home_;
  Ticket ticket_;
};

template <class Fn, class Value>
struct MeshPort::Request {
  Fn fn;
  unsigned home;
  Ticket ticket;

  void operator()(MeshPort& here) {
    ReplyTo<Value> reply(here, home, ticket);
    try {
      if constexpr (detail::Awaited<detail::Returned<Fn>>::waits) {
        here.served_.spawn(serve(here, std::move(fn), std::move(reply)));
      } else if constexpr (std::is_void_v<Value>) {
        detail::invoke_at(here, fn);
        reply.send({});
      } else {
        reply.send(Result<Value>(std::in_place, detail::invoke_at(here, fn)));
      }
    } catch (const std::bad_alloc&) {
      reply.give_out_of_memory();
    }
  }
  // `fn` is a parameter and thus part of the frame, so the captures of a coroutine lambda live as long as the
  // coroutine.
  static Task<void> serve(MeshPort& here, Fn fn, ReplyTo<Value> reply) {
    try {
      if constexpr (std::is_void_v<Value>) {
        co_await detail::invoke_at(here, fn);
        reply.send({});
      } else {
        reply.send(Result<Value>(std::in_place, co_await detail::invoke_at(here, fn)));
      }
    } catch (const std::bad_alloc&) {
      reply.give_out_of_memory();
    }
  }
};

template <class Fn>
auto MeshPort::post(unsigned core, Instant deadline, Fn fn) {
  return PostAwaiter<Posted<Fn>>(*this, core, deadline, Posted<Fn>{std::move(fn)});
}

template <class Fn>
class MeshPort::CallAwaiter : Answer<typename detail::Awaited<detail::Returned<Fn>>::Value>, Pending {
  using Value = typename detail::Awaited<detail::Returned<Fn>>::Value;
  using Base = Answer<Value>;
  using Base::caller_, Base::port_, Base::result_;

 public:
  CallAwaiter(MeshPort& port, unsigned core, Instant deadline, Fn&& fn)
      : Base(port, expire),
        Pending(push_it, done_it),
        core_(core),
        deadline_(deadline),
        request_{std::move(fn), port.core(), {}} {}
  ~CallAwaiter() {
    if (caller_ && !result_) give_up();
  }

  bool await_ready() const noexcept { return !port_.may_call(core_); }
  void await_suspend(std::coroutine_handle<> caller) {
    port_.enlist(*this, core_);
    caller_ = caller;
    request_.ticket = this->ticket;
    if (!port_.try_push(core_, std::move(request_))) port_.wait_for_room(core_, *this);
    port_.reactor_.timers().schedule(*this, deadline_);
  }
  Result<Value> await_resume() {
    if (!result_) return fail(port_.open(core_) ? Errc::limit : Errc::closed);
    return std::move(*result_);
  }

 private:
  static bool push_it(Pending& pending, Ring& ring) {
    return ring.try_emplace(std::move(static_cast<CallAwaiter&>(pending).request_));
  }
  static void done_it(Pending& pending, bool accepted) noexcept {
    if (accepted) return;
    auto& self = static_cast<CallAwaiter&>(pending);
    self.port_.claim(self.ticket);
    self.settle(fail(Errc::closed));
  }
  static void expire(Timer& timer) noexcept {
    auto& self = static_cast<CallAwaiter&>(timer);
    self.give_up();
    self.settle(fail(Errc::timed_out));
  }

  void give_up() noexcept {
    if (linked) {
      port_.unlink(*this);
      port_.claim(this->ticket);
    } else {
      port_.abandon(*this);
    }
  }

  const unsigned core_;
  const Instant deadline_;
  Request<Fn, Value> request_;
};

template <class Fn>
auto MeshPort::call(unsigned core, Instant deadline, Fn fn) {
  return CallAwaiter<Fn>(*this, core, deadline, std::move(fn));
}

}  // namespace sluice::core
