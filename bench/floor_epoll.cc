// The floor for an HTTP/1.1 keep-alive exchange: one epoll loop that reads, counts blank lines and writes a
// canned answer. It parses nothing and handles no error: no real server can cost less on this kernel.
// usage: floor_epoll PORT BODY_BYTES
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  signal(SIGPIPE, SIG_IGN);
  const std::size_t body = std::strtoul(argv[2], nullptr, 10);
  const std::string answer =
      "HTTP/1.1 200 OK\r\nServer: floor\r\nDate: Sat, 21 Nov 2026 18:48:34 GMT\r\nContent-Type: text/html\r\n"
      "Content-Length: " +
      std::to_string(body) + "\r\n\r\n" + std::string(body, 'a');

  const int on = 1;
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(std::atoi(argv[1])));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return 1;
  if (listen(listener, 4096) != 0) return 1;

  const int loop = epoll_create1(0);
  epoll_event event{.events = EPOLLIN, .data = {.fd = listener}};
  epoll_ctl(loop, EPOLL_CTL_ADD, listener, &event);
  epoll_event ready[512];
  static char input[65536];
  std::string output;
  for (;;) {
    const int count = epoll_wait(loop, ready, 512, -1);
    for (int i = 0; i < count; ++i) {
      const int fd = ready[i].data.fd;
      if (fd == listener) {
        for (int peer; (peer = accept4(listener, nullptr, nullptr, SOCK_NONBLOCK)) >= 0;) {
          setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
          event = {.events = EPOLLIN, .data = {.fd = peer}};
          epoll_ctl(loop, EPOLL_CTL_ADD, peer, &event);
        }
        continue;
      }
      const ssize_t got = recv(fd, input, sizeof input, 0);
      if (got <= 0) {
        close(fd);
        continue;
      }
      output.clear();
      const char* at = input;
      while ((at = static_cast<const char*>(memmem(at, input + got - at, "\r\n\r\n", 4))) != nullptr) {
        output += answer;
        at += 4;
      }
      if (!output.empty()) send(fd, output.data(), output.size(), MSG_NOSIGNAL);
    }
  }
}
