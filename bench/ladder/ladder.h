#pragma once

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

// What the servers of the ladder share, so that each shows its own step and nothing else. They answer every request with
// one file, parse nothing but the blank line, and are no servers to put in front of anybody.
namespace ladder {

struct Arguments {
  std::uint16_t port;
  const char* file;
  int threads;
};

// usage: NAME PORT FILE [THREADS]
inline Arguments arguments(int argc, char** argv) {
  if (argc < 3) std::exit(2);
  std::signal(SIGPIPE, SIG_IGN);
  return {static_cast<std::uint16_t>(std::atoi(argv[1])), argv[2], argc > 3 ? std::atoi(argv[3]) : 1};
}

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

// How many requests end in what was received; a request that is split between two reads counts with its end, which wrk's
// never are.
inline int requests_in(std::string_view input) {
  int count = 0;
  for (std::size_t at = 0; (at = input.find("\r\n\r\n", at)) != input.npos; at += 4) ++count;
  return count;
}

inline std::string head(std::size_t size, bool keep_alive) {
  return "HTTP/1.1 200 OK\r\nServer: ladder\r\nContent-Type: text/html\r\nContent-Length: " + std::to_string(size) +
         (keep_alive ? "\r\n\r\n" : "\r\nConnection: close\r\n\r\n");
}

// As a first server does it: the file is opened and read for every request.
inline std::string answer_from(const char* file, bool keep_alive) {
  const int fd = ::open(file, O_RDONLY);
  struct stat status{};
  ::fstat(fd, &status);
  std::string answer = head(static_cast<std::size_t>(status.st_size), keep_alive);
  const std::size_t before = answer.size();
  answer.resize(before + static_cast<std::size_t>(status.st_size));
  for (std::size_t done = before; done < answer.size();) {
    const ssize_t got = ::read(fd, answer.data() + done, answer.size() - done);
    if (got <= 0) std::exit(1);
    done += static_cast<std::size_t>(got);
  }
  ::close(fd);
  return answer;
}

// Answers are small and clients read: where the socket is full, this waits for it, which costs the ladder's servers nothing
// that it measures.
inline bool send_all(int fd, std::string_view bytes, int flags = 0) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), flags | MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN) return false;
    if (sent > 0) bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

// A level-triggered loop: `on_input(fd, bytes)` says whether the connection stays.
template <class OnInput>
[[noreturn]] void loop(int listener, OnInput on_input) {
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
        event = {.events = EPOLLIN, .data = {.fd = peer}};
        ::epoll_ctl(poll, EPOLL_CTL_ADD, peer, &event);
        continue;
      }
      const ssize_t got = ::recv(fd, input, sizeof input, 0);
      if (got < 0 && errno == EAGAIN) continue;
      if (got <= 0 || !on_input(fd, std::string_view(input, static_cast<std::size_t>(got)))) ::close(fd);
    }
  }
}

}  // namespace ladder
