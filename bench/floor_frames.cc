// The floors for message services: one epoll loop without TLS, sessions or error handling. It reads, finds the ends of
// the frames, and writes them back with one call (echo), or to every client with one call each (broadcast).
// usage: floor_frames PORT echo|broadcast
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace {

// The size of the whole frames at the beginning.
std::size_t whole_frames(const std::string& bytes) {
  std::size_t at = 0;
  while (bytes.size() - at >= 12) {
    std::uint32_t body = 0;
    std::memcpy(&body, bytes.data() + at + 6, 4);
    const std::size_t size = ((bytes[at + 1] & 1) != 0 ? 16 : 12) + __builtin_bswap32(body);
    if (bytes.size() - at < size) break;
    at += size;
  }
  return at;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  signal(SIGPIPE, SIG_IGN);
  const bool broadcasts = std::string_view(argv[2]) == "broadcast";
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
  std::vector<std::string> rests;  // by descriptor: the beginning of a frame
  std::vector<int> clients;
  std::string said;
  for (;;) {
    const int count = epoll_wait(loop, ready, 512, -1);
    said.clear();
    for (int i = 0; i < count; ++i) {
      const int fd = ready[i].data.fd;
      if (fd == listener) {
        for (int peer; (peer = accept4(listener, nullptr, nullptr, SOCK_NONBLOCK)) >= 0;) {
          setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
          event = {.events = EPOLLIN, .data = {.fd = peer}};
          epoll_ctl(loop, EPOLL_CTL_ADD, peer, &event);
          clients.push_back(peer);
          if (rests.size() <= static_cast<std::size_t>(peer)) rests.resize(static_cast<std::size_t>(peer) + 1);
        }
        continue;
      }
      const ssize_t got = recv(fd, input, sizeof input, 0);
      if (got <= 0) {
        close(fd);
        std::erase(clients, fd);
        continue;
      }
      std::string& rest = rests[static_cast<std::size_t>(fd)];
      rest.append(input, static_cast<std::size_t>(got));
      const std::size_t whole = whole_frames(rest);
      if (whole == 0) continue;
      if (broadcasts) {
        said.append(rest, 0, whole);
      } else {
        send(fd, rest.data(), whole, MSG_NOSIGNAL);
      }
      rest.erase(0, whole);
    }
    if (said.empty()) continue;
    for (const int client : clients) {
      for (std::size_t sent = 0; sent < said.size();) {
        const ssize_t more = send(client, said.data() + sent, said.size() - sent, MSG_NOSIGNAL);
        if (more > 0) {
          sent += static_cast<std::size_t>(more);
        } else if (errno == EAGAIN) {
          pollfd full{.fd = client, .events = POLLOUT, .revents = 0};
          poll(&full, 1, -1);
        } else {
          break;
        }
      }
    }
  }
}
