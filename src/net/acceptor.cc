#include "net/acceptor.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <new>
#include <utility>

#include "core/next_turn.h"
#include "core/sleep.h"
#include "net/stream.h"

namespace sluice::net {
namespace {

constexpr Duration accept_pause = 50ms;
constexpr std::size_t accepts_per_turn = 32;  // then the accepted connections are served first
constexpr Duration accept_share_pause = 1ms;
constexpr int last_turns =
    4;  // turns without a waiting client before a listener closes, because io_uring reports clients late

}  // namespace

struct Acceptor::Listener {
  enum class State : std::uint8_t { bound, listening, ending };

  explicit Listener(core::Reactor& reactor) : stream(reactor) {}
  Stream stream;
  core::Address address;
  bool secure = false;
  State state = State::bound;
  core::TaskGroup::Member* task = nullptr;  // runs accept()
};

Acceptor::Acceptor(core::Reactor& reactor, Owner& owner, const AcceptorOptions& options)
    : reactor_(reactor), owner_(owner), options_(options) {}

Acceptor::~Acceptor() { stop(); }

Result<core::Address> Acceptor::listen(const Listening& wanted) {
  auto bound = bind(wanted);
  if (!bound) return bound;
  Listener& listener = *listeners_.back();
  listener.secure = wanted.secure;
  if (auto started = start(listener); !started) {
    listeners_.pop_back();
    return std::unexpected(started.error());
  }
  return bound;
}

Result<core::Address> Acceptor::bind(const Listening& wanted) {
  const core::Address& address = wanted.address;
  for (const auto& listener : listeners_) {
    if (listener->state != Listener::State::ending && listener->address.text() == address.text()) return address;
  }
  auto listener = std::make_unique<Listener>(reactor_);
  core::Handle& handle = listener->stream.handle();
  const auto done = wanted.shared >= 0 ? reactor_.bind_shared(handle, wanted.shared)
                                       : reactor_.bind(handle, address, core::ListenOptions().reuse_port);
  if (!done) return std::unexpected(done.error());
  const auto bound = reactor_.local_address(handle);
  if (!bound) return bound;
  listener->address = *bound;
  listeners_.push_back(std::move(listener));
  return bound;
}

Result<void> Acceptor::listen_on(std::span<const Listening> wanted) {
  Result<void> result;
  if (stopped_) return result;
  const auto find = [&](const Listener& listener) {
    return std::ranges::find(wanted, listener.address.text(), [](const Listening& one) { return one.address.text(); });
  };
  std::erase_if(listeners_, [&](const auto& listener) {
    return listener->state == Listener::State::bound && find(*listener) == wanted.end();
  });
  for (std::size_t i = 0; i < listeners_.size(); ++i) {
    Listener& listener = *listeners_[i];
    if (listener.state == Listener::State::ending) continue;
    const auto found = find(listener);
    if (found == wanted.end()) {
      end(listener);
      continue;
    }
    listener.secure = found->secure;
    if (listener.state == Listener::State::listening) continue;
    if (auto started = start(listener); !started) result = started;
  }
  return result;
}

void Acceptor::stop() noexcept {
  stopped_ = true;
  accepting_.cancel();
  listeners_.clear();
}

Result<void> Acceptor::start(Listener& listener) {
  auto started = reactor_.start_listening(listener.stream.handle(), core::ListenOptions().backlog);
  if (!started) return started;
  listener.state = Listener::State::listening;
  accepting_.spawn(accept(listener), &listener.task);
  return {};
}

// The accepting task may be waiting for a client. It is replaced by a task that ends when no client is waiting.
void Acceptor::end(Listener& listener) {
  core::TaskGroup::cancel(*listener.task);
  listener.state = Listener::State::ending;
  accepting_.spawn(accept(listener), &listener.task);
}

core::Task<void> Acceptor::accept(Listener& listener) {
  core::Handle& handle = listener.stream.handle();
  core::TurnShare turn(reactor_, accepts_per_turn);
  const bool ending = listener.state == Listener::State::ending;
  for (int idle_turns = 0; idle_turns < last_turns;) {
    if (!handle.may_read && !ending) (void)co_await listener.stream.readable(never);
    if (turn.spend(1)) co_await core::Sleep(reactor_, reactor_.now() + accept_share_pause);
    bool puts_off = false;
    bool is_idle = false;
    try {
      core::Handle& next = owner_.next_handle();
      core::Address peer;
      const auto accepted = reactor_.accept(handle, next, &peer);
      if (!accepted) {
        const int error = accepted.error().detail;
        if (error == ECONNABORTED || error == EINTR || error == EPROTO) continue;  // the client has already left
        if (error == EMFILE || error == ENFILE) tell_of_descriptors();
        puts_off = true;
      } else if (*accepted) {
        if (next.fd >= options_.descriptors) {
          owner_.dropped(Dropped::no_descriptor);
          tell_of_descriptors();
          puts_off = true;
        } else {
          if (options_.trouble != nullptr) options_.trouble->got_through();
          owner_.accepted(peer, listener.secure);
        }
      } else {
        is_idle = true;
      }
    } catch (const std::bad_alloc&) {
      owner_.dropped(Dropped::no_memory);
      puts_off = true;
    }
    if (puts_off) {
      // Retry after a pause, because such an error persists for a while.
      handle.may_read = false;
      (void)co_await listener.stream.readable(reactor_.now() + accept_pause);
      handle.may_read = true;
    }
    idle_turns = is_idle && ending ? idle_turns + 1 : 0;
    if (idle_turns != 0) co_await core::NextTurn(reactor_);
  }
  std::erase_if(listeners_, [&](const auto& one) { return one.get() == &listener; });
}

void Acceptor::tell_of_descriptors() {
  if (options_.trouble != nullptr) options_.trouble->met("there are no file descriptors left for connections");
}

}  // namespace sluice::net
