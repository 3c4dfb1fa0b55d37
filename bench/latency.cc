// Measures how long answers take. One keep-alive connection requests the target again each time when the previous
// answer is complete. All answers must have the coding of the first one and, without a coding, also its size: the size
// of a response that is compressed while it is streamed varies.
// usage: latency PORT TARGET WARM_UP REQUESTS [FIELD...]
// Prints JSON: the size of a body, its coding, and the time of each request after the first WARM_UP, in microseconds.
#include <cctype>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

namespace {

[[noreturn]] void give_up(const char* what, std::string_view seen = {}) {
  std::fprintf(stderr, "latency: %s%s%.*s\n", what, seen.empty() ? "" : ": ", static_cast<int>(seen.size()),
               seen.data());
  std::exit(1);
}

struct Answer {
  std::size_t size = 0;  // of the body, without chunk framing
  std::string coding;
};

class Connection {
 public:
  explicit Connection(std::uint16_t port) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) give_up("nobody listens");
    const int on = 1;
    setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    const timeval most{.tv_sec = 10, .tv_usec = 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
    buffer_.resize(1 << 20);
  }

  Answer ask(std::string_view request) {
    if (send(fd_, request.data(), request.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(request.size()))
      give_up("the connection was closed");
    Answer answer;
    std::optional<std::size_t> length;
    std::string_view line = take_line();
    if (!line.starts_with("HTTP/1.1 200")) give_up("no 200", line);
    while (!(line = take_line()).empty()) {
      if (const auto value = field(line, "content-length")) length = number(*value, 10);
      if (const auto value = field(line, "content-encoding")) answer.coding = *value;
    }
    if (length) {
      skip(*length);
      answer.size = *length;
    } else {
      // Without a length, an HTTP/1.1 answer on a kept connection must be chunked (RFC 9112, section 6.3).
      while (const std::size_t chunk = number(take_line(), 16)) {
        skip(chunk + 2);
        answer.size += chunk;
      }
      while (!take_line().empty()) {
      }
    }
    if (begin_ != end_) give_up("more than one answer");
    return answer;
  }

 private:
  static std::optional<std::string_view> field(std::string_view line, std::string_view name) {
    if (line.size() <= name.size() || line[name.size()] != ':') return std::nullopt;
    for (std::size_t i = 0; i < name.size(); ++i) {
      if (std::tolower(static_cast<unsigned char>(line[i])) != name[i]) return std::nullopt;
    }
    line.remove_prefix(name.size() + 1);
    while (line.starts_with(' ')) line.remove_prefix(1);
    return line;
  }

  static std::size_t number(std::string_view text, int base) {
    std::size_t value = 0;
    if (std::from_chars(text.data(), text.data() + text.size(), value, base).ec != std::errc{})
      give_up("no length", text);
    return value;
  }

  void receive() {
    if (begin_ == end_) begin_ = end_ = 0;
    if (end_ == buffer_.size()) give_up("a line without an end");
    const ssize_t got = recv(fd_, buffer_.data() + end_, buffer_.size() - end_, 0);
    if (got <= 0) give_up("the answer ends too early");
    end_ += static_cast<std::size_t>(got);
  }

  // Returns the line without its CR LF; valid until the next call.
  std::string_view take_line() {
    for (;;) {
      const std::string_view seen(buffer_.data() + begin_, end_ - begin_);
      if (const std::size_t at = seen.find("\r\n"); at != seen.npos) {
        begin_ += at + 2;
        return seen.substr(0, at);
      }
      if (begin_ > buffer_.size() / 2) {
        buffer_.replace(0, seen.size(), std::string(seen));
        end_ = seen.size();
        begin_ = 0;
      }
      receive();
    }
  }

  void skip(std::size_t count) {
    while (count > end_ - begin_) {
      count -= end_ - begin_;
      begin_ = end_;
      receive();
    }
    begin_ += count;
  }

  int fd_;
  std::string buffer_;
  std::size_t begin_ = 0;  // begin_ <= end_ <= buffer_.size(): what was received and not yet taken
  std::size_t end_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) return 2;
  std::string request = "GET " + std::string(argv[2]) + " HTTP/1.1\r\nHost: localhost\r\n";
  for (int i = 5; i < argc; ++i) request.append(argv[i]).append("\r\n");
  request += "\r\n";
  const int warm_up = std::atoi(argv[3]);
  const int requests = std::atoi(argv[4]);

  using Clock = std::chrono::steady_clock;
  Connection connection(static_cast<std::uint16_t>(std::atoi(argv[1])));
  const Answer first = connection.ask(request);
  for (int i = 1; i < warm_up; ++i) connection.ask(request);
  std::vector<std::chrono::duration<double, std::micro>> took(static_cast<std::size_t>(requests));
  for (auto& one : took) {
    const auto begin = Clock::now();
    const Answer answer = connection.ask(request);
    one = Clock::now() - begin;
    if (answer.coding != first.coding || (answer.coding.empty() && answer.size != first.size))
      give_up("answers differ");
  }

  std::printf("{\"bytes\": %zu, \"coding\": \"%s\", \"latencies_us\": [", first.size, first.coding.c_str());
  const char* comma = "";
  for (const auto& one : took) {
    std::printf("%s%.1f", comma, one.count());
    comma = ", ";
  }
  std::puts("]}");
}
