#pragma once

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

// Socket code of the small servers that the benchmarks compare against. It is not meant for real use.
namespace plain {

inline int listen_on(std::uint16_t port, bool blocking = false) {
  const int on = 1;
  const int listener = ::socket(AF_INET, SOCK_STREAM | (blocking ? 0 : SOCK_NONBLOCK), 0);
  ::setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  ::setsockopt(listener, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) std::exit(1);
  if (::listen(listener, 4096) != 0) std::exit(1);
  return listener;
}

// Sends all of `bytes`. If the socket is full, waits up to 5 s for it, and all other connections wait too.
inline bool send_all(int fd, std::string_view bytes, int flags = 0) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), flags | MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN) return false;
    if (sent > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
      continue;
    }
    pollfd writable{.fd = fd, .events = POLLOUT, .revents = 0};
    if (::poll(&writable, 1, 5000) != 1) return false;
  }
  return true;
}

// A loop. `on_input(fd, bytes)` returns whether the connection stays open. `edge` is EPOLLET for an edge-triggered one: the
// kernel reports only new bytes, and a read that is shorter than its buffer has taken all of them.
template <class OnInput>
[[noreturn]] void loop(int listener, OnInput on_input, std::uint32_t edge = 0) {
  const int poll = ::epoll_create1(0);
  epoll_event event{.events = EPOLLIN, .data = {.fd = listener}};
  ::epoll_ctl(poll, EPOLL_CTL_ADD, listener, &event);
  epoll_event ready[512];
  char input[16384];
  for (;;) {
    const int count = ::epoll_wait(poll, ready, 512, -1);
    for (int i = 0; i < count; ++i) {
      const int fd = ready[i].data.fd;
      if (fd == listener) {
        const int peer = ::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK);
        if (peer < 0) continue;
        const int on = 1;
        ::setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        event = {.events = EPOLLIN | edge, .data = {.fd = peer}};
        ::epoll_ctl(poll, EPOLL_CTL_ADD, peer, &event);
        continue;
      }
      ssize_t got;
      do {
        got = ::recv(fd, input, sizeof input, 0);
        if (got < 0 && errno == EAGAIN) break;
        if (got > 0 && on_input(fd, std::string_view(input, static_cast<std::size_t>(got)))) continue;
        ::close(fd);
        break;
      } while (edge != 0 && got == sizeof input);
    }
  }
}

}  // namespace plain
