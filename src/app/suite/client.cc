#include "app/suite/client.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buffer.h"
#include "http/fields.h"
#include "http/h1/response.h"

namespace sluice::app::suite {
namespace {

constexpr Duration connect_timeout = 10s;

class Socket {
 public:
  explicit Socket(const core::Address& server)
      : descriptor_(::socket(server.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    if (descriptor_ < 0 || ::connect(descriptor_, server.get(), server.size()) != 0) error_ = errno;
  }
  Socket(const Socket&) = delete;
  ~Socket() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  // The result of connect(): 0 if connected, EINPROGRESS while connecting.
  [[nodiscard]] int error() const { return error_; }
  [[nodiscard]] int descriptor() const { return descriptor_; }

 private:
  int descriptor_ = -1;
  int error_ = 0;
};

// Waits for events. Returns an empty string, or why the wait ended without an event. `late`: the message at the
// deadline.
std::string wait_for(int descriptor, short events, Instant deadline, const char* late, Signals& signals) {
  for (;;) {
    if (signals.interrupted()) return "interrupted by a signal";
    const Duration left = deadline - now();
    if (left <= 0ns) return late;
    pollfd waits[2] = {{descriptor, events, 0}, {signals.descriptor(), POLLIN, 0}};
    const auto left_ms = std::chrono::duration_cast<std::chrono::milliseconds>(left).count() + 1;
    if (::poll(waits, 2, static_cast<int>(std::min<std::int64_t>(left_ms, 60'000))) < 0 && errno != EINTR) {
      return std::strerror(errno);
    }
    if (waits[0].revents != 0) return {};
  }
}

// Returns why connecting failed, or an empty string.
std::string finish_connecting(const Socket& socket, Instant deadline, Signals& signals) {
  int error = socket.error();
  if (error == EINPROGRESS) {
    const Instant until = std::min(deadline, now() + connect_timeout);
    if (auto why = wait_for(socket.descriptor(), POLLOUT, until, "no answer in time", signals); !why.empty())
      return why;
    socklen_t size = sizeof error;
    if (::getsockopt(socket.descriptor(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
  }
  return error == 0 ? std::string() : std::strerror(error);
}

}  // namespace

Instant now() { return Instant(std::chrono::steady_clock::now().time_since_epoch()); }

std::expected<std::string, std::string> write_request(const RequestText& request) {
  if (!request.target.starts_with('/') ||
      !std::ranges::all_of(request.target, [](char c) { return c > ' ' && c < 0x7f; })) {
    return std::unexpected(fmt::format("\"{}\" is not a path", request.target));
  }
  Buffer text;
  text.append(fmt::format("{} {} HTTP/1.1\r\n", request.method, request.target));
  bool has_host = false;
  for (const auto& [name, value] : request.fields) {
    if (value.empty()) continue;
    if (http::same_name(name, "Content-Length") || http::same_name(name, "Transfer-Encoding")) {
      return std::unexpected(fmt::format("the field {} is written by the client", name));
    }
    if (!http::h1::append_field(text, name, value)) {
      return std::unexpected(fmt::format("the field {} is not valid", name));
    }
    has_host |= http::same_name(name, "Host");
  }
  if (!has_host) text.append("Host: localhost\r\n");
  if (request.has_body) text.append(fmt::format("Content-Length: {}\r\n", request.body.size()));
  text.append("\r\n");
  text.append(request.body);
  return std::string(text.view());
}

std::expected<Answer, std::string> send_request(const core::Address& server, const RequestText& request,
                                                Instant deadline, Signals& signals) {
  const auto bytes = write_request(request);
  if (!bytes) return std::unexpected(bytes.error());
  const Socket socket(server);
  if (const auto why = finish_connecting(socket, deadline, signals); !why.empty()) {
    return std::unexpected("cannot connect to the server: " + why);
  }
  ResponseReader reader(request.method);
  std::string_view rest = *bytes;
  std::string block(64 << 10, '\0');
  for (;;) {
    // A server may answer and close the connection before it has read the whole request.
    if (!rest.empty()) {
      const ssize_t sent = ::send(socket.descriptor(), rest.data(), rest.size(), MSG_NOSIGNAL);
      if (sent > 0) rest.remove_prefix(static_cast<std::size_t>(sent));
      if (sent < 0 && errno != EAGAIN && errno != EINTR) rest = {};
    }
    const ssize_t got = ::recv(socket.descriptor(), block.data(), block.size(), 0);
    if (got >= 0) {
      const auto state = got == 0 ? reader.end() : reader.feed({block.data(), static_cast<std::size_t>(got)});
      if (state == ResponseReader::State::done) return std::move(reader.answer());
      if (state == ResponseReader::State::broken) return std::unexpected("not an answer: " + reader.problem());
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return std::unexpected(fmt::format("the connection broke: {}", std::strerror(errno)));
    const auto events = static_cast<short>(rest.empty() ? POLLIN : POLLIN | POLLOUT);
    constexpr const char* late = "no complete answer within the timeout";
    if (auto why = wait_for(socket.descriptor(), events, deadline, late, signals); !why.empty()) {
      return std::unexpected(std::move(why));
    }
  }
}

bool can_connect(const core::Address& server) { return Socket(server).error() == 0; }

}  // namespace sluice::app::suite
