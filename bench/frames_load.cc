// Loads a message service with frames (docs/formats/frame.md) from one thread.
//
//   frames_load PORT echo CONNECTIONS BODY_BYTES IN_FLIGHT SECONDS [RATE]
// Each connection sends correlated frames, of which IN_FLIGHT wait for their answers at a time; the answers must have
// the same size and come in order. Without RATE the loop is closed: an answer allows the next frame. With RATE it is
// open: frames fall due at this rate over all connections, and a latency counts from the time at which its frame was
// due, also if the frame had to wait for an earlier answer.
//
//   frames_load PORT hear CONNECTIONS BODY_BYTES IN_FLIGHT SECONDS
// The first connection speaks, and all connections hear each frame. The speaker sends IN_FLIGHT frames, and the next
// ones when it has heard these itself.
//
// With the environment variable WEBSOCKET, a path such as /echo, frames go over WebSockets, one in each message. TOKEN
// is then the handshake's bearer token.
//
// Prints JSON: messages (answers, or deliveries to all), seconds, latencies in microseconds.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "histogram.h"

namespace {

using Clock = std::chrono::steady_clock;

[[noreturn]] void give_up(const char* what) {
  std::fprintf(stderr, "frames_load: %s\n", what);
  std::exit(1);
}

struct Connection {
  int fd = -1;
  std::string out;
  std::size_t body_left = 0;  // of the frame being received
  std::string head;
  std::string message_head;  // of the WebSocket message
  std::uint32_t sent = 0;
  std::uint32_t answered = 0;
  std::deque<Clock::time_point> began;  // of the frames without an answer
};

// The frame as a client's binary message, masked with zeros.
std::string message(std::string_view frame) {
  std::string bytes = "\x82";
  if (frame.size() < 126) {
    bytes += static_cast<char>(0x80 | frame.size());
  } else {
    bytes += static_cast<char>(0x80 | 126);
    bytes += static_cast<char>(frame.size() >> 8);
    bytes += static_cast<char>(frame.size());
  }
  return bytes.append(4, '\0').append(frame);
}

std::string frame(std::uint32_t id, std::string_view body, const std::uint32_t* correlation) {
  std::string bytes(12, '\0');
  bytes[0] = 1;
  bytes[1] = correlation != nullptr ? 1 : 0;
  const std::uint32_t number = htonl(id);
  const std::uint32_t size = htonl(static_cast<std::uint32_t>(body.size()));
  std::memcpy(&bytes[2], &number, 4);
  std::memcpy(&bytes[6], &size, 4);
  if (correlation != nullptr) {
    const std::uint32_t value = htonl(*correlation);
    bytes.append(reinterpret_cast<const char*>(&value), 4);
  }
  return bytes += body;
}

class Load {
 public:
  Load(std::uint16_t port, bool hears, std::size_t connections, std::size_t size, std::size_t in_flight, double rate)
      : hears_(hears), in_flight_(in_flight), rate_(rate), body_(size, 'x'), connections_(connections) {
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    loop_ = epoll_create1(0);
    for (std::size_t i = 0; i < connections; ++i) {
      Connection& one = connections_[i];
      one.fd = socket(AF_INET, SOCK_STREAM, 0);
      if (connect(one.fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) give_up("nobody listens");
      if (websocket_ != nullptr) open_websocket(one);
      const int on = 1;
      setsockopt(one.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      epoll_event event{.events = EPOLLIN, .data = {.u64 = i}};
      epoll_ctl(loop_, EPOLL_CTL_ADD, one.fd, &event);
    }
    if (hears) {
      // The broadcast service wants a name first.
      send_all(connections_[0], frame(100, "s", nullptr));
    }
  }

  void run(double seconds) {
    const auto begin = Clock::now();
    const auto end = begin + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    auto now = begin;
    if (hears_) {
      speak(now);
    } else if (rate_ == 0) {
      for (Connection& one : connections_) fill(one, now);
    }
    std::array<epoll_event, 512> ready;
    std::uint64_t due = 0;
    while (now < end) {
      int patience = 100;
      if (rate_ != 0) {
        // Frames that are due and whose connection has no room wait in `began` with the time at which they were due.
        const auto should = static_cast<std::uint64_t>(std::chrono::duration<double>(now - begin).count() * rate_);
        for (; due < should; ++due) {
          Connection& one = connections_[due % connections_.size()];
          one.began.push_back(
              begin + std::chrono::nanoseconds(static_cast<std::int64_t>(static_cast<double>(due) * 1e9 / rate_)));
          fill(one, now);
        }
        patience = 0;
      }
      const int count = epoll_wait(loop_, ready.data(), static_cast<int>(ready.size()), patience);
      now = Clock::now();
      for (int i = 0; i < count; ++i) receive(connections_[ready[static_cast<std::size_t>(i)].data.u64]);
    }
    const double spent = std::chrono::duration<double>(Clock::now() - begin).count();
    std::printf("{\"messages\": %llu, \"seconds\": %.6f", static_cast<unsigned long long>(messages_), spent);
    for (const auto& [name, percent] :
         {std::pair{"p50", 50.0}, {"p90", 90.0}, {"p99", 99.0}, {"p99_9", 99.9}, {"p99_99", 99.99}}) {
      std::printf(", \"%s_us\": %.2f", name, latencies_.percentile(percent) / 1e3);
    }
    std::printf(", \"max_us\": %.2f}\n", static_cast<double>(latencies_.most()) / 1e3);
  }

 private:
  void open_websocket(Connection& one) {
    std::string head = std::string("GET ") + websocket_ + " HTTP/1.1\r\nHost: bench\r\nUpgrade: websocket\r\n" +
                       "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n" +
                       "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    if (const char* const token = std::getenv("TOKEN")) head += std::string("Authorization: Bearer ") + token + "\r\n";
    send_all(one, head + "\r\n");
    std::string answer;
    while (!answer.ends_with("\r\n\r\n")) {
      char byte = 0;
      if (recv(one.fd, &byte, 1, 0) != 1) give_up("no handshake");
      answer += byte;
    }
    if (!answer.starts_with("HTTP/1.1 101")) give_up(answer.c_str());
  }
  void send_all(Connection& one, std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = send(one.fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) give_up("the service closed a connection");
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
  }
  // Sends what may be in flight, in one call.
  void fill(Connection& one, Clock::time_point now) {
    one.out.clear();
    while (one.sent - one.answered < in_flight_ && (rate_ == 0 || one.sent - one.answered < one.began.size())) {
      if (rate_ == 0) one.began.push_back(now);
      const std::string next = frame(7, body_, &one.sent);
      one.out += websocket_ != nullptr ? message(next) : next;
      ++one.sent;
    }
    if (!one.out.empty()) send_all(one, one.out);
  }
  void speak(Clock::time_point now) {
    Connection& one = connections_[0];
    one.out.clear();
    for (std::size_t i = 0; i < in_flight_; ++i) {
      one.began.push_back(now);
      one.out += frame(101, body_, nullptr);
      ++one.sent;
    }
    send_all(one, one.out);
  }
  void receive(Connection& one) {
    static std::array<char, 256 * 1024> input;
    const ssize_t got = recv(one.fd, input.data(), input.size(), 0);
    if (got <= 0) give_up("the service closed a connection");
    const auto now = Clock::now();
    std::string_view bytes(input.data(), static_cast<std::size_t>(got));
    while (!bytes.empty()) {
      if (one.body_left == 0) {
        // The header of a message: 2 bytes, and 2 more for a longer one.
        if (websocket_ != nullptr && one.message_head.size() < 4 &&
            (one.message_head.size() < 2 || one.message_head[1] == 126)) {
          one.message_head += bytes[0];
          bytes.remove_prefix(1);
          if (static_cast<unsigned char>(one.message_head[0]) != 0x82) give_up("not a binary message");
          continue;
        }
        const std::size_t wanted = one.head.size() >= 12 && (one.head[1] & 1) != 0 ? 16 : 12;
        const std::size_t taken = std::min(wanted - one.head.size(), bytes.size());
        one.head.append(bytes.substr(0, taken));
        bytes.remove_prefix(taken);
        if (one.head.size() < 12 || ((one.head[1] & 1) != 0 && one.head.size() < 16)) continue;
        if ((one.head[1] & 2) != 0) give_up("the service sent an error");
        std::uint32_t size = 0;
        std::memcpy(&size, one.head.data() + 6, 4);
        one.body_left = ntohl(size);
        if (!hears_) {
          std::uint32_t correlation = 0;
          std::memcpy(&correlation, one.head.data() + 12, 4);
          if (one.body_left != body_.size() || ntohl(correlation) != one.answered) give_up("a wrong answer");
        }
      }
      const std::size_t taken = std::min(one.body_left, bytes.size());
      one.body_left -= taken;
      bytes.remove_prefix(taken);
      if (one.body_left != 0) break;
      one.head.clear();
      one.message_head.clear();
      ++one.answered;
      ++messages_;
      if (!one.began.empty()) {
        latencies_.add(static_cast<std::uint64_t>((now - one.began.front()).count()));
        one.began.pop_front();
      }
    }
    if (!hears_) return fill(one, now);
    if (&one == &connections_[0] && one.answered >= one.sent) speak(now);
  }

  const char* const websocket_ = std::getenv("WEBSOCKET");  // the path; null: without WebSockets
  const bool hears_;
  const std::size_t in_flight_;
  const double rate_;
  const std::string body_;
  std::vector<Connection> connections_;
  int loop_ = -1;
  std::uint64_t messages_ = 0;
  Histogram latencies_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 7) give_up("usage: frames_load PORT echo|hear CONNECTIONS BODY_BYTES IN_FLIGHT SECONDS [RATE]");
  Load load(static_cast<std::uint16_t>(std::atoi(argv[1])), std::string_view(argv[2]) == "hear",
            std::strtoul(argv[3], nullptr, 10), std::strtoul(argv[4], nullptr, 10), std::strtoul(argv[5], nullptr, 10),
            argc > 7 ? std::atof(argv[7]) : 0);
  load.run(std::atof(argv[6]));
}
