// A client that reads large files as fast as they come, so that the server is measured and not the client's copying.
// Each connection requests the target again and again; the kernel discards the bodies (tcp(7), MSG_TRUNC).
// usage: drain PORT TARGET CONNECTIONS SECONDS    prints JSON: bytes, seconds, failed, and latencies_us with one entry
// per answer
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace {

using Clock = std::chrono::steady_clock;

struct Connection {
  int fd = -1;
  std::string head;  // until it is complete
  long left = 0;     // bytes of the body that are still to come
  bool has_head = false;
  Clock::time_point asked;
};

std::string request;
char block[1 << 20];
std::vector<Clock::duration> latencies;
unsigned long bytes = 0;
unsigned long failed = 0;

bool ask(Connection& connection) {
  connection.asked = Clock::now();
  return send(connection.fd, request.data(), request.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(request.size());
}

// Reads the head or its next piece. Returns false if this client cannot handle the answer.
bool take_head(Connection& connection) {
  const ssize_t got = recv(connection.fd, block, 16 * 1024, MSG_DONTWAIT);
  if (got <= 0) return got < 0 && errno == EAGAIN;
  connection.head.append(block, static_cast<std::size_t>(got));
  const std::size_t end = connection.head.find("\r\n\r\n");
  if (end == std::string::npos) return true;
  const char* field = strcasestr(connection.head.c_str(), "\r\ncontent-length:");
  if (!connection.head.starts_with("HTTP/1.1 200") || field == nullptr) return false;
  const long already = static_cast<long>(connection.head.size() - end - 4);
  connection.left = std::atol(field + std::strlen("\r\ncontent-length:")) - already;
  connection.has_head = true;
  bytes += static_cast<unsigned long>(already);
  return connection.left >= 0;
}

// Reads what has arrived. Returns false if the connection cannot be used any more.
bool take(Connection& connection) {
  if (!connection.has_head && !take_head(connection)) return false;
  if (!connection.has_head) return true;
  if (connection.left > 0) {
    const auto most = static_cast<std::size_t>(std::min<long>(connection.left, sizeof block));
    const ssize_t got = recv(connection.fd, block, most, MSG_TRUNC | MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN) return true;
    if (got <= 0) return false;
    connection.left -= got;
    bytes += static_cast<unsigned long>(got);
    if (connection.left != 0) return true;
  }
  latencies.push_back(Clock::now() - connection.asked);
  connection.has_head = false;
  connection.head.clear();
  return ask(connection);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  request = "GET " + std::string(argv[2]) + " HTTP/1.1\r\nHost: localhost\r\n\r\n";
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(std::atoi(argv[1])));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);

  const int loop = epoll_create1(0);
  std::vector<Connection> connections(static_cast<std::size_t>(std::atoi(argv[3])));
  for (Connection& connection : connections) {
    connection.fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(connection.fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 || !ask(connection))
      return 1;
    const int on = 1;
    setsockopt(connection.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    epoll_event event{.events = EPOLLIN, .data = {.ptr = &connection}};
    epoll_ctl(loop, EPOLL_CTL_ADD, connection.fd, &event);
  }

  const auto begin = Clock::now();
  const auto end = begin + std::chrono::seconds(std::atoi(argv[4]));
  epoll_event ready[256];
  while (Clock::now() < end) {
    const int count = epoll_wait(loop, ready, 256, 100);
    for (int i = 0; i < count; ++i) {
      auto& connection = *static_cast<Connection*>(ready[i].data.ptr);
      if (take(connection)) continue;
      ++failed;
      close(connection.fd);
    }
  }
  const std::chrono::duration<double> seconds = Clock::now() - begin;
  std::printf("{\"bytes\": %lu, \"seconds\": %.6f, \"failed\": %lu, \"latencies_us\": [", bytes, seconds.count(),
              failed);
  const char* comma = "";
  for (const std::chrono::duration<double, std::micro> one : latencies) {
    std::printf("%s%.1f", comma, one.count());
    comma = ", ";
  }
  std::puts("]}");
}
