#include "core/socket_reactor.h"

#include <algorithm>
#include <ctime>
#include <system_error>
#include <utility>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/eventfd.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/bound_socket.h"

namespace sluice::core {
namespace {

// The system calls of the hot path, without the C library's cancellation points. Those cost a multithreaded program two
// atomic operations each, and this program does not cancel threads.
ssize_t plain_recv(int fd, char* into, std::size_t size) {
  return ::syscall(SYS_recvfrom, fd, into, size, 0, nullptr, nullptr);
}
ssize_t plain_send(int fd, const void* from, std::size_t size, int flags) {
  return ::syscall(SYS_sendto, fd, from, size, flags, nullptr, 0);
}

}  // namespace

SocketReactor::SocketReactor() : Reactor(CycleClock().read()), wake_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  look_at_clock();
  if (wake_ < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
}

SocketReactor::~SocketReactor() { ::close(wake_); }

std::int64_t SocketReactor::wall_clock_ns() const {
  timespec time{};
  clock_gettime(CLOCK_REALTIME_COARSE, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

Result<SocketReactor::Connecting> SocketReactor::make_connection(const Address& address) {
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
  return Connecting{fd, done};
}

Result<void> SocketReactor::connect_result(Handle& handle) {
  int error = 0;
  socklen_t size = sizeof error;
  if (::getsockopt(handle.fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
  if (error != 0) return fail(Errc::system, error);
  return {};
}

Result<Address> SocketReactor::local_address(const Handle& handle) const { return address_of(handle.fd); }

void SocketReactor::shutdown_write(Handle& handle) noexcept { ::shutdown(handle.fd, SHUT_WR); }

void SocketReactor::reset_on_close(Handle& handle) noexcept {
  const linger now{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(handle.fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
}

Io SocketReactor::receive(Handle& handle, char* into, std::size_t size) {
  const ssize_t got = plain_recv(handle.fd, into, size);
  if (got < 0) {
    if (errno == EAGAIN) handle.may_read = false;
    return {.error = errno};
  }
  // A short read has emptied the socket, so later bytes give a new event. But if the end was already announced, another
  // read is needed to return it.
  if (static_cast<std::size_t>(got) < size && !handle.peer_ended) handle.may_read = false;
  return {.bytes = static_cast<std::size_t>(got)};
}

Io SocketReactor::send(Handle& handle, std::span<const iovec> parts) { return send(handle, parts, MSG_NOSIGNAL); }

Io SocketReactor::send_before_more(Handle& handle, std::span<const iovec> parts) {
  return send(handle, parts, MSG_NOSIGNAL | MSG_MORE);
}

Io SocketReactor::send(Handle& handle, std::span<const iovec> parts, int flags) {
  if (parts.size() == 1) {
    return sent(handle, plain_send(handle.fd, parts[0].iov_base, parts[0].iov_len, flags), parts[0].iov_len);
  }
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(parts.data());
  message.msg_iovlen = parts.size();
  std::size_t wanted = 0;
  for (const iovec& part : parts) wanted += part.iov_len;
  return sent(handle, ::sendmsg(handle.fd, &message, flags), wanted);
}

void SocketReactor::cork(Handle& handle, bool on) noexcept {
  const int value = on ? 1 : 0;
  ::setsockopt(handle.fd, IPPROTO_TCP, TCP_CORK, &value, sizeof value);
}

Io SocketReactor::send_file(Handle& handle, int file, std::uint64_t offset, std::size_t size) {
  auto from = static_cast<off_t>(offset);
  const ssize_t taken = ::sendfile(handle.fd, file, &from, size);
  return sent(handle, taken, 0);  // a short count may mean the end of the file
}

Io SocketReactor::sent(Handle& handle, ssize_t sent, std::size_t wanted) {
  if (sent < 0) {
    int error = errno;
    if (error == EAGAIN) {
      handle.may_write = false;
      want_room(handle);
    } else if (handle.failed) {
      if (const int untold = untold_error(handle); untold != 0) error = untold;
    }
    return {.error = error};
  }
  if (static_cast<std::size_t>(sent) < wanted) {
    handle.may_write = false;
    want_room(handle);
  }
  handle.sent += static_cast<std::uint64_t>(sent);
  return {.bytes = static_cast<std::size_t>(sent)};
}

void SocketReactor::wake() noexcept {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_, &one, sizeof one);
}

bool SocketReactor::dispatch(Handle& handle) {
  dispatching_ = &handle;
  if (handle.may_read && handle.reader != nullptr) handle.reader->on_ready(*handle.reader);
  if (dispatching_ == nullptr) return false;  // the reader has closed the handle
  if (handle.may_write && handle.writer != nullptr) handle.writer->on_ready(*handle.writer);
  return std::exchange(dispatching_, nullptr) != nullptr;
}

int SocketReactor::timeout_ms(Instant until) {
  if (next_turn_is_due()) return 0;
  const Instant first = std::min({until, timers().next(), next_lull()});
  if (first == never) return -1;
  const Duration left = first - now_;
  if (left <= Duration::zero()) return 0;
  return static_cast<int>(std::min<std::int64_t>((left + 999'999ns) / 1ms, 60'000));
}

Duration SocketReactor::exact_timeout(Instant until) {
  if (next_turn_is_due()) return {};
  return std::max(std::min({until, timers().next(), next_lull()}) - clock(), Duration{});
}

}  // namespace sluice::core
