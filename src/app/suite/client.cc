#include "app/suite/client.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "http/fields.h"
#include "http/response.h"

namespace sluice::app::suite {
namespace {

class Socket {
 public:
  explicit Socket(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path) {
      errno = ENAMETOOLONG;
      return;
    }
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    descriptor_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (descriptor_ < 0) return;
    connected_ = ::connect(descriptor_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  Socket(const Socket&) = delete;
  ~Socket() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  [[nodiscard]] bool connected() const { return connected_; }
  [[nodiscard]] int descriptor() const { return descriptor_; }

 private:
  int descriptor_ = -1;
  bool connected_ = false;
};

// Why the wait ended without anything to do; empty: there is something.
std::string wait_for(int descriptor, short events, Instant deadline, Signals& signals) {
  for (;;) {
    if (signals.interrupted()) return "interrupted by a signal";
    const Duration left = deadline - now();
    if (left <= 0ns) return "no complete answer within the step's timeout";
    pollfd waits[2] = {{descriptor, events, 0}, {signals.descriptor(), POLLIN, 0}};
    const auto left_ms = std::chrono::duration_cast<std::chrono::milliseconds>(left).count() + 1;
    if (::poll(waits, 2, static_cast<int>(std::min<std::int64_t>(left_ms, 60'000))) < 0 && errno != EINTR) {
      return std::strerror(errno);
    }
    if (waits[0].revents != 0) return {};
  }
}

}  // namespace

Instant now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return Instant(std::chrono::seconds(time.tv_sec) + Duration(time.tv_nsec));
}

std::expected<std::string, std::string> write_request(const RequestText& request) {
  const auto has_control = [](std::string_view text) {
    return std::ranges::any_of(text,
                               [](char c) { return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f; });
  };
  if (!request.target.starts_with('/') || request.target.contains(' ') || has_control(request.target)) {
    return std::unexpected(fmt::format("\"{}\" is not a path", request.target));
  }
  std::string text = fmt::format("{} {} HTTP/1.1\r\n", request.method, request.target);
  bool has_host = false;
  for (const auto& [name, value] : request.fields) {
    if (value.empty()) continue;
    if (!http::is_token(name) || has_control(value)) {
      return std::unexpected(fmt::format("the field {} has a control character", name));
    }
    if (http::same_name(name, "Content-Length") || http::same_name(name, "Transfer-Encoding")) {
      return std::unexpected(fmt::format("the field {} is written by the client", name));
    }
    has_host |= http::same_name(name, "Host");
    text += fmt::format("{}: {}\r\n", name, value);
  }
  if (!has_host) text += "Host: localhost\r\n";
  if (request.has_body) text += fmt::format("Content-Length: {}\r\n", request.body.size());
  text += "\r\n";
  text += request.body;
  return text;
}

std::expected<Answer, std::string> send_request(const std::string& socket_path, const RequestText& request,
                                                Instant deadline, Signals& signals) {
  const auto bytes = write_request(request);
  if (!bytes) return std::unexpected(bytes.error());
  const Socket socket(socket_path);
  if (!socket.connected())
    return std::unexpected(fmt::format("cannot connect to the server: {}", std::strerror(errno)));
  ResponseReader reader(request.method);
  std::string_view rest = *bytes;
  std::string block(64 << 10, '\0');
  for (;;) {
    // A server may answer before it has read all, and close.
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
    if (auto why = wait_for(socket.descriptor(), events, deadline, signals); !why.empty()) {
      return std::unexpected(std::move(why));
    }
  }
}

bool can_connect(const std::string& socket_path) { return Socket(socket_path).connected(); }

}  // namespace sluice::app::suite
