#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/assert.h"
#include "core/bound_socket.h"
#include "core/socket_reactor.h"

namespace sluice::core {
namespace {

// Avoids the C library's cancellation point, as in socket_reactor.cc.
int plain_epoll_wait(int epoll, epoll_event* events, std::size_t most, int timeout_ms) {
  return static_cast<int>(::syscall(SYS_epoll_pwait, epoll, events, most, timeout_ms, nullptr, 0));
}

constexpr std::uint32_t for_clients = EPOLLIN | EPOLLET;
constexpr std::uint32_t for_connections = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;

// Every socket is registered once, for all events, edge-triggered: a warm exchange is epoll_wait, recv and send.
class EpollReactor final : public SocketReactor {
 public:
  EpollReactor() : epoll_(epoll_create1(EPOLL_CLOEXEC)) {
    if (epoll_ < 0) throw std::system_error(errno, std::generic_category(), "epoll_create1");
    epoll_event event{.events = EPOLLIN | EPOLLET, .data = {.ptr = &event_count_}};
    if (epoll_ctl(epoll_, EPOLL_CTL_ADD, wake_fd(), &event) != 0) {
      const int error = errno;
      ::close(epoll_);
      throw std::system_error(error, std::generic_category(), "epoll_ctl");
    }
  }
  ~EpollReactor() override { ::close(epoll_); }

  Result<void> bind(Handle& handle, const Address& address, bool reuse_port) override {
    SLUICE_ASSERT(handle.fd < 0);
    const auto fd = bind_socket(address, reuse_port, false);
    if (!fd) return std::unexpected(fd.error());
    handle.fd = *fd;
    return {};
  }

  Result<void> bind_shared(Handle& handle, int socket) override {
    SLUICE_ASSERT(handle.fd < 0);
    const auto fd = share_listener(socket);
    if (!fd) return std::unexpected(fd.error());
    handle.fd = *fd;
    handle.is_shared = true;
    return {};
  }

  // The socket joins the epoll set only here, because epoll reports a hang-up for a socket that is merely bound. A
  // shared one joins it in accept().
  Result<void> start_listening(Handle& handle, int backlog) override {
    if (::listen(handle.fd, backlog) != 0) return fail(Errc::system, errno);
    if (!handle.is_shared) return attach(handle, std::exchange(handle.fd, -1), for_clients);
    handle.may_read = true;  // so that accept() is called
    return {};
  }

  Result<bool> accept(Handle& listener, Handle& accepted, Address* peer) override {
    if (listener.is_shared && !set_waiting(listener, true)) return fail(Errc::system, errno);
    sockaddr_storage from{};
    socklen_t size = sizeof from;
    const int fd = ::accept4(listener.fd, peer != nullptr ? reinterpret_cast<sockaddr*>(&from) : nullptr,
                             peer != nullptr ? &size : nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
      if (errno == EAGAIN) {
        listener.may_read = false;
        return false;
      }
      return fail(Errc::system, errno);
    }
    if (listener.is_shared) (void)set_waiting(listener, false);
    if (peer != nullptr) *peer = Address(reinterpret_cast<sockaddr*>(&from), size);
    if (auto attached = attach(accepted, fd, for_connections); !attached) {
      return std::unexpected(attached.error());
    }
    return true;
  }

  Result<bool> connect(Handle& handle, const Address& address) override {
    const auto connecting = make_connection(address);
    if (!connecting) return std::unexpected(connecting.error());
    if (auto attached = attach(handle, connecting->fd, for_connections); !attached) {
      return std::unexpected(attached.error());
    }
    handle.may_write = connecting->done;
    return connecting->done;
  }

  void close(Handle& handle) noexcept override {
    if (handle.fd < 0) return;
    SLUICE_ASSERT(handle.reader == nullptr && handle.writer == nullptr);
    if (handle.is_shared) (void)set_waiting(handle, false);
    ::close(handle.fd);  // closing the last descriptor removes it from the epoll set
    handle.fd = -1;
    handle.is_shared = false;
    // The remaining events of this batch must not refer to the handle.
    for (int i = next_event_; i < event_count_; ++i) {
      if (events_[static_cast<std::size_t>(i)].data.ptr == &handle) {
        events_[static_cast<std::size_t>(i)].data.ptr = nullptr;
      }
    }
    gone(handle);
  }

  Io recv(Handle& handle, char* into, std::size_t size) override { return receive(handle, into, size); }

  void turn(Instant until) override {
    begin_turn();
    event_count_ = next_lull() == never ? plain_epoll_wait(epoll_, events_.data(), events_.size(), timeout_ms(until))
                                        : wait_exactly(until);
    look_at_clock();
    for (next_event_ = 0; next_event_ < event_count_;) {
      const epoll_event& event = events_[static_cast<std::size_t>(next_event_++)];
      if (event.data.ptr == nullptr || event.data.ptr == &event_count_) continue;
      auto& handle = *static_cast<Handle*>(event.data.ptr);
      const bool dead = (event.events & (EPOLLHUP | EPOLLERR)) != 0;
      const bool ended = dead || (event.events & EPOLLRDHUP) != 0;
      handle.failed |= dead;
      handle.peer_ended |= ended;
      handle.may_read |= ended || (event.events & EPOLLIN) != 0;
      handle.may_write |= dead || (event.events & EPOLLOUT) != 0;
      dispatch(handle);
    }
    event_count_ = next_event_ = 0;
    end_lulls();
    timers().advance(now_);
    run_hooks();
  }

 private:
  // epoll_pwait2 is from Linux 5.11. If it is missing or a filter does not permit it, a lull ends up to a millisecond
  // late.
  int wait_exactly(Instant until) {
    if (waits_exactly_) {
      const Duration left = exact_timeout(until);
      const timespec time{.tv_sec = left / 1s, .tv_nsec = (left % 1s).count()};
      const long count = ::syscall(SYS_epoll_pwait2, epoll_, events_.data(), events_.size(), &time, nullptr, 0);
      if (count >= 0 || (errno != ENOSYS && errno != EPERM)) return static_cast<int>(count);
      waits_exactly_ = false;
    }
    return plain_epoll_wait(epoll_, events_.data(), events_.size(), timeout_ms(until));
  }

  void set_quiet(Handle& handle, bool quiet) noexcept override {
    // EPOLL_CTL_MOD gives a new event for bytes that have already arrived.
    epoll_event event{.events = quiet ? for_connections & ~EPOLLIN : for_connections, .data = {.ptr = &handle}};
    [[maybe_unused]] const int set = epoll_ctl(epoll_, EPOLL_CTL_MOD, handle.fd, &event);
    SLUICE_ASSERT(set == 0);
  }

  // Whether clients of a shared listener wake this core. The kernel wakes the core that has waited longest, so a core
  // that has accepted a client waits anew, behind the others.
  bool set_waiting(Handle& listener, bool waits) {
    if ((listener.backend != nullptr) == waits) return true;
    epoll_event event{.events = for_clients | EPOLLEXCLUSIVE, .data = {.ptr = &listener}};
    if (epoll_ctl(epoll_, waits ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, listener.fd, &event) != 0) return false;
    listener.backend = waits ? this : nullptr;
    return true;
  }

  Result<void> attach(Handle& handle, int fd, std::uint32_t events) {
    SLUICE_ASSERT(handle.fd < 0);
    epoll_event event{.events = events, .data = {.ptr = &handle}};
    if (epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) != 0) {
      const int error = errno;
      ::close(fd);
      return fail(Errc::system, error);
    }
    handle.fd = fd;
    handle.may_read = handle.may_write = true;
    handle.peer_ended = handle.failed = false;
    return {};
  }

  int epoll_ = -1;
  std::array<epoll_event, 512> events_{};
  int event_count_ = 0;  // its address identifies the wake-up
  int next_event_ = 0;
  bool waits_exactly_ = true;
};

}  // namespace

std::unique_ptr<Reactor> make_epoll_reactor() { return std::make_unique<EpollReactor>(); }

}  // namespace sluice::core
