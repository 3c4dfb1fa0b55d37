#include <algorithm>
#include <array>
#include <ctime>
#include <system_error>

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/assert.h"
#include "core/reactor.h"

namespace sluice::core {
namespace {

// The calls of the hot path, without the C library's cancellation points: those cost a program with threads two atomic
// operations each, and nobody cancels threads here.
ssize_t plain_recv(int fd, char* into, std::size_t size) {
  return ::syscall(SYS_recvfrom, fd, into, size, 0, nullptr, nullptr);
}
ssize_t plain_send(int fd, const void* from, std::size_t size, int flags) {
  return ::syscall(SYS_sendto, fd, from, size, flags, nullptr, 0);
}
int plain_epoll_wait(int epoll, epoll_event* events, std::size_t most, int timeout_ms) {
  return static_cast<int>(::syscall(SYS_epoll_pwait, epoll, events, most, timeout_ms, nullptr, 0));
}

Instant monotonic_now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return Instant(std::chrono::seconds(time.tv_sec) + Duration(time.tv_nsec));
}

// Every socket is registered once, for everything, edge-triggered: a warm exchange is epoll_wait, recv and send.
class EpollReactor final : public Reactor {
 public:
  EpollReactor() : Reactor(monotonic_now()) {
    epoll_ = epoll_create1(EPOLL_CLOEXEC);
    if (epoll_ < 0) throw std::system_error(errno, std::generic_category(), "epoll_create1");
    wake_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (wake_ < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
    epoll_event event{.events = EPOLLIN | EPOLLET, .data = {.ptr = &wake_}};
    if (epoll_ctl(epoll_, EPOLL_CTL_ADD, wake_, &event) != 0) {
      throw std::system_error(errno, std::generic_category(), "epoll_ctl");
    }
  }
  ~EpollReactor() override {
    ::close(wake_);
    ::close(epoll_);
  }

  Instant clock() const override { return monotonic_now(); }

  std::int64_t wall_clock_ns() const override {
    timespec time{};
    clock_gettime(CLOCK_REALTIME_COARSE, &time);
    return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
  }

  Result<void> listen(Handle& handle, const Address& address, const ListenOptions& options) override {
    const int fd = ::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return fail(Errc::system, errno);
    const int on = 1;
    const int off = 0;
    if (address.family() == AF_UNIX) {
      unlink_stale_socket(address);
    } else {
      ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
      if (options.reuse_port) ::setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
      ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);  // accepted sockets inherit it
      if (address.family() == AF_INET6) ::setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    }
    if (::bind(fd, address.get(), address.size()) != 0 || ::listen(fd, options.backlog) != 0) {
      const int error = errno;
      ::close(fd);
      return fail(Errc::system, error);
    }
    return attach(handle, fd, EPOLLIN | EPOLLET);
  }

  Result<bool> accept(Handle& listener, Handle& accepted, Address* peer) override {
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
    if (peer != nullptr) *peer = Address(reinterpret_cast<sockaddr*>(&from), size);
    if (auto attached = attach(accepted, fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET); !attached) {
      return std::unexpected(attached.error());
    }
    return true;
  }

  Result<bool> connect(Handle& handle, const Address& address) override {
    const int fd = ::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return fail(Errc::system, errno);
    const int on = 1;
    if (address.family() != AF_UNIX) ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    const bool done = ::connect(fd, address.get(), address.size()) == 0;
    if (!done && errno != EINPROGRESS) {
      const int error = errno;
      ::close(fd);
      return fail(Errc::system, error);
    }
    if (auto attached = attach(handle, fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET); !attached) {
      return std::unexpected(attached.error());
    }
    handle.may_write = done;
    return done;
  }

  Result<void> connect_result(Handle& handle) override {
    int error = 0;
    socklen_t size = sizeof error;
    if (::getsockopt(handle.fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
    if (error != 0) return fail(Errc::system, error);
    return {};
  }

  Result<Address> local_address(const Handle& handle) const override {
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    if (::getsockname(handle.fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return fail(Errc::system, errno);
    return Address(reinterpret_cast<sockaddr*>(&address), size);
  }

  void close(Handle& handle) noexcept override {
    if (handle.fd < 0) return;
    SLUICE_ASSERT(handle.reader == nullptr && handle.writer == nullptr);
    ::close(handle.fd);  // leaves the epoll set with its last descriptor
    handle.fd = -1;
    // Events of this batch that have not been looked at yet must not find the handle.
    for (int i = next_event_; i < event_count_; ++i) {
      if (events_[static_cast<std::size_t>(i)].data.ptr == &handle) {
        events_[static_cast<std::size_t>(i)].data.ptr = nullptr;
      }
    }
    if (dispatching_ == &handle) dispatching_ = nullptr;
  }

  void shutdown_write(Handle& handle) noexcept override { ::shutdown(handle.fd, SHUT_WR); }

  void reset_on_close(Handle& handle) noexcept override {
    const linger now{.l_onoff = 1, .l_linger = 0};
    ::setsockopt(handle.fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  }

  Io recv(Handle& handle, char* into, std::size_t size) override {
    const ssize_t got = plain_recv(handle.fd, into, size);
    if (got < 0) {
      if (errno == EAGAIN) handle.may_read = false;
      return {.error = errno};
    }
    // A short read has emptied the socket: whatever comes later is a new edge. Only an end that has been announced
    // already needs the read that returns it.
    if (static_cast<std::size_t>(got) < size && !handle.peer_ended) handle.may_read = false;
    return {.bytes = static_cast<std::size_t>(got)};
  }

  Io send(Handle& handle, std::span<const iovec> parts) override { return send(handle, parts, MSG_NOSIGNAL); }
  Io send_before_more(Handle& handle, std::span<const iovec> parts) override {
    return send(handle, parts, MSG_NOSIGNAL | MSG_MORE);
  }

  static Io send(Handle& handle, std::span<const iovec> parts, int flags) {
    ssize_t sent = 0;
    std::size_t wanted = 0;
    if (parts.size() == 1) {
      wanted = parts[0].iov_len;
      sent = plain_send(handle.fd, parts[0].iov_base, parts[0].iov_len, flags);
    } else {
      msghdr message{};
      message.msg_iov = const_cast<iovec*>(parts.data());
      message.msg_iovlen = parts.size();
      for (const iovec& part : parts) wanted += part.iov_len;
      sent = ::sendmsg(handle.fd, &message, flags);
    }
    if (sent < 0) {
      if (errno == EAGAIN) handle.may_write = false;
      return {.error = errno};
    }
    if (static_cast<std::size_t>(sent) < wanted) handle.may_write = false;
    handle.sent += static_cast<std::uint64_t>(sent);
    return {.bytes = static_cast<std::size_t>(sent)};
  }

  void cork(Handle& handle, bool on) noexcept override {
    const int value = on ? 1 : 0;
    ::setsockopt(handle.fd, IPPROTO_TCP, TCP_CORK, &value, sizeof value);
  }

  Io send_file(Handle& handle, int file, std::uint64_t offset, std::size_t size) override {
    auto from = static_cast<off_t>(offset);
    const ssize_t sent = ::sendfile(handle.fd, file, &from, size);
    if (sent < 0) {
      if (errno == EAGAIN) handle.may_write = false;
      return {.error = errno};
    }
    handle.sent += static_cast<std::uint64_t>(sent);
    return {.bytes = static_cast<std::size_t>(sent)};
  }

  void turn(Instant until) override {
    begin_turn();
    event_count_ = plain_epoll_wait(epoll_, events_.data(), events_.size(), timeout_ms(until));
    now_ = monotonic_now();
    for (next_event_ = 0; next_event_ < event_count_;) {
      const epoll_event& event = events_[static_cast<std::size_t>(next_event_++)];
      if (event.data.ptr == nullptr) continue;
      if (event.data.ptr == &wake_) {
        std::uint64_t count = 0;
        [[maybe_unused]] const ssize_t got = ::read(wake_, &count, sizeof count);
        continue;
      }
      dispatch(*static_cast<Handle*>(event.data.ptr), event.events);
    }
    event_count_ = next_event_ = 0;
    timers().advance(now_);
    run_hooks();
  }

  void wake() noexcept override {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(wake_, &one, sizeof one);
  }

 private:
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

  void dispatch(Handle& handle, std::uint32_t events) {
    const bool dead = (events & (EPOLLHUP | EPOLLERR)) != 0;
    const bool ended = dead || (events & EPOLLRDHUP) != 0;
    handle.failed |= dead;
    handle.peer_ended |= ended;
    handle.may_read |= ended || (events & EPOLLIN) != 0;
    handle.may_write |= dead || (events & EPOLLOUT) != 0;
    dispatching_ = &handle;
    if (handle.may_read && handle.reader != nullptr) handle.reader->on_ready(*handle.reader);
    if (dispatching_ == nullptr) return;  // the reader has closed it
    if (handle.may_write && handle.writer != nullptr) handle.writer->on_ready(*handle.writer);
    dispatching_ = nullptr;
  }

  int timeout_ms(Instant until) {
    if (next_turn_is_due()) return 0;
    const Instant first = std::min(until, timers().next());
    if (first == never) return -1;
    const Duration left = first - now_;
    if (left <= Duration::zero()) return 0;
    return static_cast<int>(std::min<std::int64_t>((left + 999'999ns) / 1ms, 60'000));
  }

  // A socket file that nobody listens on any more is in the way of its successor; one that answers is left alone.
  static void unlink_stale_socket(const Address& address) {
    const int probe = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (probe < 0) return;
    if (::connect(probe, address.get(), address.size()) != 0 && errno == ECONNREFUSED) {
      ::unlink(reinterpret_cast<const sockaddr_un*>(address.get())->sun_path);
    }
    ::close(probe);
  }

  int epoll_ = -1;
  int wake_ = -1;
  std::array<epoll_event, 512> events_{};
  int event_count_ = 0;
  int next_event_ = 0;
  Handle* dispatching_ = nullptr;
};

}  // namespace

std::unique_ptr<Reactor> make_epoll_reactor() { return std::make_unique<EpollReactor>(); }

}  // namespace sluice::core
