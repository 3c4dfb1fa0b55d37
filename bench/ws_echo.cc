// WebSocket echo (RFC 6455), the server and the client that loads it, for gateways in between. Both know no more than
// this exchange needs: one handshake with a fixed key, and short unfragmented text messages. usage: ws_echo PORT the
// server
//        ws_echo PORT CONNECTIONS SECONDS    the client: each connection sends a message whenever the echo of the last
//        one is
//                                            complete; prints JSON: failed, seconds, and latencies_us with one entry
//                                            per echo
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "plain_server.h"

namespace {

using Clock = std::chrono::steady_clock;

// The example of RFC 6455, section 1.3, which saves the server a SHA-1.
constexpr std::string_view handshake =
    "GET /echo HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: "
    "13\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
constexpr std::string_view accepted =
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";
constexpr std::string_view text = "a message of thirty-two letters.";
constexpr std::string_view mask = "\x37\xfa\x21\x3d";

constexpr char text_frame = '\x81';  // FIN and the opcode of a text
constexpr std::size_t client_head = 6;

std::string frame_of_client() {
  std::string frame{text_frame, static_cast<char>(0x80 | text.size())};
  frame += mask;
  for (std::size_t i = 0; i < text.size(); ++i) frame += static_cast<char>(text[i] ^ mask[i % 4]);
  return frame;
}

std::string frame_of_server() { return std::string{text_frame, static_cast<char>(text.size())}.append(text); }

// Takes whole frames from the front of `bytes` and returns their echoes. Sets `valid` to false at anything but a short
// masked text.
std::string echo(std::string& bytes, bool& valid) {
  std::string echoes;
  std::size_t at = 0;
  while (bytes.size() - at >= client_head) {
    const auto size = static_cast<unsigned char>(bytes[at + 1]) - 0x80U;  // wraps if the frame is not masked
    valid = bytes[at] == text_frame && size < 126;
    if (!valid || bytes.size() - at < client_head + size) break;
    echoes += text_frame;
    echoes += static_cast<char>(size);
    for (std::size_t i = 0; i < size; ++i)
      echoes += static_cast<char>(bytes[at + client_head + i] ^ bytes[at + 2 + i % 4]);
    at += client_head + size;
  }
  bytes.erase(0, at);
  return echoes;
}

[[noreturn]] void serve(std::uint16_t port) {
  std::vector<std::string> received;  // by descriptor: an incomplete request or frame
  plain::loop(plain::listen_on(port), [&received](int fd, std::string_view bytes) {
    if (received.size() <= static_cast<std::size_t>(fd)) received.resize(static_cast<std::size_t>(fd) + 1);
    std::string& mine = received[static_cast<std::size_t>(fd)];
    if (bytes.starts_with("GET ")) mine.clear();  // a new connection
    mine += bytes;
    if (mine.starts_with("GET ")) {
      if (!mine.ends_with("\r\n\r\n")) return true;
      mine.clear();
      return plain::send_all(fd, accepted);
    }
    bool valid = true;
    return plain::send_all(fd, echo(mine, valid)) && valid;
  });
}

struct Client {
  int fd = -1;
  std::string received;
  Clock::time_point sent;
};

bool upgrade(Client& client, std::uint16_t port) {
  client.fd = socket(AF_INET, SOCK_STREAM, 0);
  const int on = 1;
  setsockopt(client.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(client.fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return false;
  if (!plain::send_all(client.fd, handshake)) return false;
  std::string answer;
  char block[4096];
  while (!answer.ends_with("\r\n\r\n")) {
    const ssize_t got = recv(client.fd, block, sizeof block, 0);
    if (got <= 0) return false;
    answer.append(block, static_cast<std::size_t>(got));
  }
  return answer.starts_with("HTTP/1.1 101");
}

int load(std::uint16_t port, std::size_t connections, int duration) {
  const std::string message = frame_of_client(), expected = frame_of_server();
  std::vector<Client> clients(connections);
  for (Client& client : clients) {
    if (upgrade(client, port)) continue;
    std::fprintf(stderr, "the handshake failed\n");
    return 1;
  }
  const int loop = epoll_create1(0);
  std::vector<Clock::duration> latencies;
  unsigned long failed = 0;
  const auto begin = Clock::now();
  const auto end = begin + std::chrono::seconds(duration);
  for (Client& client : clients) {
    epoll_event event{.events = EPOLLIN, .data = {.ptr = &client}};
    epoll_ctl(loop, EPOLL_CTL_ADD, client.fd, &event);
    client.sent = Clock::now();
    plain::send_all(client.fd, message);
  }
  epoll_event ready[256];
  char block[4096];
  while (Clock::now() < end) {
    const int count = epoll_wait(loop, ready, 256, 100);
    for (int i = 0; i < count; ++i) {
      Client& client = *static_cast<Client*>(ready[i].data.ptr);
      const ssize_t got = recv(client.fd, block, sizeof block, 0);
      if (got > 0) client.received.append(block, static_cast<std::size_t>(got));
      if (got > 0 && client.received.size() < expected.size()) continue;
      const auto now = Clock::now();
      if (got <= 0 || client.received != expected || !plain::send_all(client.fd, message)) {
        ++failed;
        close(std::exchange(client.fd, -1));
        continue;
      }
      latencies.push_back(now - client.sent);
      client.sent = now;
      client.received.clear();
    }
  }
  const std::chrono::duration<double> seconds = Clock::now() - begin;
  // A connection whose last message has waited for half of the time counts as failed too.
  for (const Client& client : clients) failed += client.fd >= 0 && client.sent < begin + (end - begin) / 2;
  std::printf("{\"failed\": %lu, \"seconds\": %.6f, \"bytes\": %zu, \"latencies_us\": [", failed, seconds.count(),
              latencies.size() * text.size());
  const char* comma = "";
  for (const std::chrono::duration<double, std::micro> one : latencies) {
    std::printf("%s%.1f", comma, one.count());
    comma = ", ";
  }
  std::puts("]}");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 4) return 2;
  const auto port = static_cast<std::uint16_t>(std::atoi(argv[1]));
  if (argc == 2) serve(port);
  return load(port, static_cast<std::size_t>(std::atoi(argv[2])), std::atoi(argv[3]));
}
