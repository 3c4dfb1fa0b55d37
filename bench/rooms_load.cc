// Subscribes many WebSockets to rooms, publishes at a fixed rate, and checks every delivery, in one thread.
//
//   rooms_load --server sluice|centrifugo --port N --api-port N --rooms R --subscribers S --rate X --seconds T
//              --payload BYTES [--slow K --slow-rate BYTES] [--fill F]
//
// --server says which protocol is spoken: the one of rooms (docs/formats/rooms.md), or Centrifugo's in JSON.
//
// Subscriber i is in room i % R, and publication j goes to room j % R. Publications go out by HTTP when they are due,
// over a few kept connections. All publications of a room take the same connection, one at a time, so that their order
// is known. The text of a publication holds the time at which it was taken up, by the monotonic clock, and its number
// within the room. A latency is the time from there to its receipt by one subscriber. It includes the time for which a
// publication waits for the answer to an earlier one.
//
// Each subscriber must receive each publication of its room once and in order, with the offsets 1, 2, 3 and so on.
//
// --slow adds K subscribers, which subscribe before the others. Each of them reads --slow-rate bytes once a second, or
// nothing at all if that is 0. They are not checked and do not count as deliveries, and the server may close them.
// Their sockets have a small receive buffer and segments as on a network. With the segments of the loopback, the kernel
// would queue megabytes for each of them, and the server would not notice in a short run that they are slow.
//
// --fill publishes F texts of 15,000 bytes in each room before "ready", and waits until the subscribers have received
// them. They fill the buffers of the slow ones, and are in no figure.
//
// With --broadcast 1 each publication is one request and goes to all rooms.
//
// When all are subscribed, "ready" goes to stderr. A line on stdin, or its end, starts the publications. Then a line of
// JSON goes to stdout, and the connections stay open until stdin ends. Ends with 1 if anything was wrong.
#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "histogram.h"

namespace {

constexpr std::size_t publisher_count = 4;
constexpr std::uint64_t second = 1'000'000'000;
constexpr std::uint64_t patience = 10 * second;  // after the last publication was due
constexpr std::uint64_t linger = second / 5;     // in which a second copy would arrive
constexpr std::size_t fill_payload = 15'000;

[[noreturn]] void give_up(std::string_view what, std::string_view seen = {}) {
  std::fprintf(stderr, "rooms_load: %.*s%s%.*s\n", static_cast<int>(what.size()), what.data(), seen.empty() ? "" : ": ",
               static_cast<int>(seen.size()), seen.data());
  std::exit(1);
}

std::uint64_t now_ns() {
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

std::uint64_t cpu_ns() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto ns = [](const timeval& time) {
    return static_cast<std::uint64_t>(time.tv_sec) * second + static_cast<std::uint64_t>(time.tv_usec) * 1000;
  };
  return ns(used.ru_utime) + ns(used.ru_stime);
}

struct Options {
  bool sluice = true;
  std::uint16_t port = 0;
  std::uint16_t api_port = 0;
  std::size_t rooms = 1;
  std::size_t subscribers = 1;
  double rate = 1;
  double seconds = 1;
  std::size_t payload = 200;
  std::size_t slow = 0;
  std::size_t slow_rate = 0;
  std::size_t fill = 0;
  bool broadcast = false;
};

// The number behind `name` in the text; 0 if it is not there.
std::uint64_t number_after(std::string_view text, std::string_view name) {
  const std::size_t at = text.find(name);
  std::uint64_t value = 0;
  if (at != text.npos) std::from_chars(text.data() + at + name.size(), text.data() + text.size(), value);
  return value;
}

// A client's frame, masked with zeros. The payload is shorter than 64 KiB.
std::string frame(unsigned char opcode, std::string_view payload) {
  std::string bytes(1, static_cast<char>(0x80 | opcode));
  if (payload.size() < 126) {
    bytes += static_cast<char>(0x80 | payload.size());
  } else {
    bytes += static_cast<char>(0x80 | 126);
    bytes += static_cast<char>(payload.size() >> 8);
    bytes += static_cast<char>(payload.size());
  }
  return bytes.append(4, '\0').append(payload);
}

void send_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) give_up("the server closed a connection, or reads nothing");
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
}

int connect_to(std::uint16_t port, bool slow = false) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  if (fd < 0) give_up("no more descriptors");
  if (slow) {
    constexpr int buffer = 4096;
    constexpr int segment = 1448;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer);
    setsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &segment, sizeof segment);
  }
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) give_up("nobody listens");
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  const timeval most{.tv_sec = 10, .tv_usec = 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
  return fd;
}

struct Subscriber {
  int fd = -1;
  std::size_t room = 0;
  bool subscribed = false;
  std::uint64_t offset = 0;  // of the last publication
  std::string rest;          // the beginning of a frame
};

struct Publisher {
  int fd = -1;
  std::deque<std::string> requests;  // the first one is sent
  std::uint64_t sent = 0;            // when it was
  std::string answer;                // as far as it has arrived
};

class Load {
 public:
  explicit Load(const Options& options)
      : options_(options),
        subscribers_(options.subscribers),
        slow_(options.slow),
        publishers_(options.broadcast ? 1 : std::min(publisher_count, options.rooms)),
        published_(options.rooms),
        loop_(epoll_create1(0)) {
    for (std::size_t room = 0; room < options.rooms; ++room) {
      markers_.push_back(options.sluice ? "\"room\":\"/rooms/" + std::to_string(room) + '"'
                                        : "\"channel\":\"" + std::to_string(room) + '"');
    }
    // One after the other, so that no backlog overflows.
    for (std::size_t i = 0; i < slow_.size(); ++i) {
      slow_[i].room = i % options.rooms;
      slow_[i].fd = connect_to(options.port, true);
      subscribe(slow_[i]);
      fcntl(slow_[i].fd, F_SETFL, O_NONBLOCK);
    }
    for (std::size_t i = 0; i < subscribers_.size(); ++i) {
      subscribers_[i].room = i % options.rooms;
      subscribers_[i].fd = connect_to(options.port);
      subscribe(subscribers_[i]);
      watch(subscribers_[i].fd, i);
    }
    for (std::size_t i = 0; i < publishers_.size(); ++i) {
      publishers_[i].fd = connect_to(options.api_port);
      watch(publishers_[i].fd, subscribers_.size() + i);
    }
    next_slow_ = now_ns();
    fill();
  }

  // Reads what arrives, until there is something on stdin.
  void wait_for_line() {
    const std::size_t input = subscribers_.size() + publishers_.size();
    epoll_event event{.events = EPOLLIN, .data = {.u64 = input}};
    if (epoll_ctl(loop_, EPOLL_CTL_ADD, STDIN_FILENO, &event) != 0) return;  // a file
    while (!poll_once(second)) {
    }
    epoll_ctl(loop_, EPOLL_CTL_DEL, STDIN_FILENO, nullptr);
    std::array<char, 64> line;
    if (read(STDIN_FILENO, line.data(), line.size()) < 0) give_up("cannot read stdin");
  }

  bool run() {
    const auto count = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(options_.rate * options_.seconds + 0.5));
    const std::uint64_t begin = now_ns();
    const std::uint64_t cpu = cpu_ns();
    const auto due = [&](std::uint64_t i) {
      return begin + static_cast<std::uint64_t>(static_cast<double>(i) * 1e9 / options_.rate);
    };
    const std::uint64_t end = due(count) + patience;
    std::uint64_t expected = 0;
    std::uint64_t late = 0;
    for (std::uint64_t i = 0; i < count || deliveries_ < expected || answered_ < count;) {
      const std::uint64_t now = now_ns();
      if (now >= end) break;
      if (i < count && due(i) <= now) {
        late = std::max(late, now - due(i));
        expected += publish(options_.broadcast ? 0 : i % options_.rooms, options_.payload, now);
        ++i;
        continue;
      }
      poll_once((i < count ? due(i) : end) - now);
    }
    const std::uint64_t finish = now_ns();
    const std::uint64_t cpu_end = cpu_ns();
    while (now_ns() < finish + linger) poll_once(linger);

    if (answered_ != count) wrong("requests without an answer", std::to_string(count - answered_));
    if (deliveries_ != expected) wrong("deliveries", std::to_string(deliveries_) + ", not " + std::to_string(expected));
    std::printf(
        "{\"server\": \"%s\", \"publications\": %llu, \"deliveries\": %llu, \"missing\": %llu, \"errors\": %llu, "
        "\"seconds\": %.6f, \"p50_us\": %.2f, \"p99_us\": %.2f, \"max_us\": %.2f, \"answer_p50_us\": %.2f, "
        "\"answer_p99_us\": %.2f, \"late_us\": %.2f, \"slow_bytes\": %llu, \"slow_closed\": %llu, "
        "\"client_busy\": %.3f}\n",
        options_.sluice ? "sluice" : "centrifugo", static_cast<unsigned long long>(count),
        static_cast<unsigned long long>(deliveries_),
        static_cast<unsigned long long>(expected - std::min(expected, deliveries_)),
        static_cast<unsigned long long>(errors_), static_cast<double>(finish - begin) / 1e9,
        latencies_.percentile(50) / 1e3, latencies_.percentile(99) / 1e3, static_cast<double>(latencies_.most()) / 1e3,
        answers_.percentile(50) / 1e3, answers_.percentile(99) / 1e3, static_cast<double>(late) / 1e3,
        static_cast<unsigned long long>(slow_bytes_), static_cast<unsigned long long>(slow_closed_),
        static_cast<double>(cpu_end - cpu) / static_cast<double>(finish - begin));
    std::fflush(stdout);
    return errors_ == 0;
  }

 private:
  void fill() {
    const std::uint64_t end = now_ns() + patience;
    std::uint64_t expected = 0;
    const std::uint64_t count = options_.fill * options_.rooms;
    for (std::uint64_t i = 0; i < count; ++i) expected += publish(i % options_.rooms, fill_payload, now_ns());
    while ((deliveries_ < expected || answered_ < count) && now_ns() < end) poll_once(second);
    if (deliveries_ != expected || answered_ != count || errors_ != 0) give_up("the first publications did not arrive");
    deliveries_ = answered_ = 0;
    latencies_ = answers_ = {};
  }

  void watch(int fd, std::uint64_t number) {
    fcntl(fd, F_SETFL, O_NONBLOCK);
    epoll_event event{.events = EPOLLIN, .data = {.u64 = number}};
    if (epoll_ctl(loop_, EPOLL_CTL_ADD, fd, &event) != 0) give_up("cannot watch a connection");
  }

  void wrong(std::string_view what, std::string_view seen) {
    if (++errors_ > 5) return;
    std::fprintf(stderr, "rooms_load: %.*s: %.*s\n", static_cast<int>(what.size()), what.data(),
                 static_cast<int>(seen.size()), seen.data());
  }

  // Returns when the new connection is subscribed.
  void subscribe(Subscriber& one) {
    const std::string room = std::to_string(one.room);
    send_all(one.fd, "GET " + (options_.sluice ? "/rooms/" + room : "/connection/websocket") +
                         " HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                         "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n");
    std::string head;
    std::array<char, 4096> input;
    std::size_t end = 0;
    while ((end = head.find("\r\n\r\n")) == head.npos) {
      const ssize_t got = recv(one.fd, input.data(), input.size(), 0);
      if (got <= 0) give_up("no handshake", head);
      head.append(input.data(), static_cast<std::size_t>(got));
    }
    if (!head.starts_with("HTTP/1.1 101")) give_up("no WebSocket", head);
    if (!options_.sluice) {
      send_all(one.fd, frame(1, "{\"id\":1,\"connect\":{}}\n{\"id\":2,\"subscribe\":{\"channel\":\"" + room + "\"}}"));
    }
    take_frames(one, std::string_view(head).substr(end + 4));
    while (!one.subscribed) {
      const ssize_t got = recv(one.fd, input.data(), input.size(), 0);
      if (got <= 0) give_up("no subscription");
      take_frames(one, std::string_view(input.data(), static_cast<std::size_t>(got)));
    }
  }

  // Queues a publication. Returns how many deliveries it makes.
  std::uint64_t publish(std::size_t room, std::size_t payload, std::uint64_t now) {
    std::string text = std::to_string(now) + ' ' + std::to_string(++published_[room]) + ' ';
    text.resize(std::max(text.size(), payload), 'x');
    std::string body = "{\"text\":\"" + text + "\"}";
    std::string path = "/rooms/" + std::to_string(room);
    if (options_.broadcast) path = "/broadcast";
    if (!options_.sluice) {
      path = options_.broadcast ? "/api/broadcast" : "/api/publish";
      body = (options_.broadcast ? "{\"channels\":[" + all_rooms() + ']'
                                 : "{\"channel\":\"" + std::to_string(room) + '"') +
             ",\"data\":" + body + '}';
    }
    Publisher& publisher = publishers_[room % publishers_.size()];
    publisher.requests.push_back(
        "POST " + path +
        " HTTP/1.1\r\nHost: 127.0.0.1\r\nX-API-Key: bench\r\nContent-Type: application/json\r\nContent-Length: " +
        std::to_string(body.size()) + "\r\n\r\n" + body);
    if (publisher.requests.size() == 1) send_first(publisher);
    if (options_.broadcast) return options_.subscribers;
    return options_.subscribers / options_.rooms + (room < options_.subscribers % options_.rooms ? 1 : 0);
  }

  // "0","1" ...
  [[nodiscard]] std::string all_rooms() const {
    std::string names;
    for (std::size_t room = 0; room < options_.rooms; ++room) {
      names += (names.empty() ? "\"" : ",\"") + std::to_string(room) + '"';
    }
    return names;
  }

  static void send_first(Publisher& publisher) {
    publisher.sent = now_ns();
    send_all(publisher.fd, publisher.requests.front());
  }

  // Each slow subscriber has its turn once a second.
  void read_slowly() {
    for (const std::uint64_t now = now_ns(); next_slow_ <= now; next_slow_ += second / slow_.size()) {
      Subscriber& one = slow_[slow_turn_++ % slow_.size()];
      if (one.fd < 0) continue;
      const ssize_t got = recv(one.fd, input_.data(), std::min(options_.slow_rate, input_.size()), 0);
      if (got > 0) {
        slow_bytes_ += static_cast<std::uint64_t>(got);
      } else if (got == 0 || errno != EAGAIN) {
        close(one.fd);
        one.fd = -1;
        ++slow_closed_;
      }
    }
  }

  // Waits this long at most. True: there is something on stdin.
  bool poll_once(std::uint64_t most) {
    if (!slow_.empty() && options_.slow_rate != 0) {
      read_slowly();
      most = std::min(most, next_slow_ - std::min(next_slow_, now_ns()));
    }
    const timespec timeout{.tv_sec = static_cast<time_t>(most / second), .tv_nsec = static_cast<long>(most % second)};
    const int count = epoll_pwait2(loop_, ready_.data(), static_cast<int>(ready_.size()), &timeout, nullptr);
    bool input = false;
    for (int i = 0; i < count; ++i) {
      const std::uint64_t number = ready_[static_cast<std::size_t>(i)].data.u64;
      if (number < subscribers_.size()) {
        Subscriber& one = subscribers_[number];
        take_frames(one, receive(one.fd));
      } else if (number < subscribers_.size() + publishers_.size()) {
        take_answer(publishers_[number - subscribers_.size()]);
      } else {
        input = true;
      }
    }
    return input;
  }

  std::string_view receive(int fd) {
    const ssize_t got = recv(fd, input_.data(), input_.size(), 0);
    if (got <= 0) give_up("the server closed a connection");
    return {input_.data(), static_cast<std::size_t>(got)};
  }

  void take_answer(Publisher& publisher) {
    std::string& answer = publisher.answer;
    answer += receive(publisher.fd);
    const std::size_t end = answer.find("\r\n\r\n");
    if (end == answer.npos) return;
    std::string head = answer.substr(0, end + 2);
    std::ranges::transform(head, head.begin(),
                           [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    if (head.contains("\r\ntransfer-encoding:")
            ? !answer.ends_with("\r\n0\r\n\r\n")
            : answer.size() < end + 4 + number_after(head, "\r\ncontent-length: ")) {
      return;
    }
    if (!answer.starts_with("HTTP/1.1 20") || answer.find("\"error\"", end) != answer.npos) {
      give_up("a publication was refused", answer);
    }
    answers_.add(now_ns() - publisher.sent);
    ++answered_;
    answer.clear();
    publisher.requests.pop_front();
    if (!publisher.requests.empty()) send_first(publisher);
  }

  void take_frames(Subscriber& one, std::string_view bytes) {
    const std::uint64_t now = now_ns();
    if (one.rest.empty()) {
      one.rest = bytes.substr(take_whole_frames(one, bytes, now));
    } else {
      one.rest += bytes;
      one.rest.erase(0, take_whole_frames(one, one.rest, now));
    }
  }

  // Returns how many bytes it has taken.
  std::size_t take_whole_frames(Subscriber& one, std::string_view bytes, std::uint64_t now) {
    std::size_t taken = 0;
    while (bytes.size() - taken >= 2) {
      const std::string_view left = bytes.substr(taken);
      const auto byte = [&](std::size_t i) { return static_cast<std::size_t>(static_cast<unsigned char>(left[i])); };
      std::size_t head = 2;
      std::size_t size = byte(1);
      if (size >= 126) {
        if (size != 126) give_up("a masked frame, or one that is too long");
        head = 4;
        if (left.size() < head) break;
        size = byte(2) << 8 | byte(3);
      }
      if (left.size() < head + size) break;
      take_frame(one, byte(0), left.substr(head, size), now);
      taken += head + size;
    }
    return taken;
  }

  void take_frame(Subscriber& one, std::size_t first_byte, std::string_view payload, std::uint64_t now) {
    if (first_byte == 0x89) return send_all(one.fd, frame(10, payload));
    if (first_byte == 0x8A) return;
    if (first_byte == 0x88)
      give_up("the server closed a WebSocket", payload.substr(std::min<std::size_t>(2, payload.size())));
    if (first_byte != 0x81) give_up("not a whole text message");
    if (options_.sluice) return take_sluice(one, payload, now);
    // Centrifugo may join messages by newlines.
    while (!payload.empty()) {
      const std::size_t end = std::min(payload.find('\n'), payload.size());
      if (end != 0) take_centrifugo(one, payload.substr(0, end), now);
      payload.remove_prefix(std::min(end + 1, payload.size()));
    }
  }

  void take_sluice(Subscriber& one, std::string_view message, std::uint64_t now) {
    if (message.starts_with("{\"type\":\"publication\"")) return take_publication(one, message, now);
    if (message.starts_with("{\"type\":\"subscribed\"")) {
      if (one.subscribed || number_after(message, "\"offset\":") != 0) give_up("the room is not new", message);
      one.subscribed = true;
    } else if (!message.starts_with("{\"type\":\"ping\"")) {
      give_up("not expected", message);
    }
  }

  void take_centrifugo(Subscriber& one, std::string_view message, std::uint64_t now) {
    if (message.contains("\"pub\":")) return take_publication(one, message, now);
    if (message == "{}") return send_all(one.fd, frame(1, "{}"));
    if (message.contains("\"error\":") || message.contains("\"disconnect\":")) give_up("refused", message);
    if (message.contains("\"subscribe\":")) {
      if (!message.contains("\"recoverable\":true")) give_up("no history", message);
      one.subscribed = true;
    }
  }

  void take_publication(Subscriber& one, std::string_view message, std::uint64_t now) {
    constexpr std::string_view text_begins = "\"text\":\"";
    const std::uint64_t offset = number_after(message, "\"offset\":");
    const std::size_t text = message.find(text_begins);
    std::uint64_t sent = 0;
    std::uint64_t number = 0;
    if (text != message.npos) {
      const std::string_view rest = message.substr(text + text_begins.size());
      sent = number_after(rest, "");
      number = number_after(rest, " ");
    }
    if (offset != one.offset + 1 || number != offset || sent == 0 || sent > now ||
        !message.contains(markers_[one.room])) {
      wrong("not the next publication of room " + std::to_string(one.room) + " after " + std::to_string(one.offset),
            message);
    } else {
      latencies_.add(now - sent);
    }
    one.offset = offset;
    ++deliveries_;
  }

  const Options options_;
  std::vector<Subscriber> subscribers_;
  std::vector<Subscriber> slow_;
  std::vector<Publisher> publishers_;
  std::vector<std::uint64_t> published_;  // by room
  std::vector<std::string> markers_;      // what each publication of a room contains
  const int loop_;
  std::array<epoll_event, 512> ready_{};
  std::array<char, 256 * 1024> input_;
  std::uint64_t deliveries_ = 0;
  std::uint64_t answered_ = 0;
  std::uint64_t errors_ = 0;
  std::uint64_t next_slow_ = 0;  // when the next slow subscriber reads
  std::size_t slow_turn_ = 0;
  std::uint64_t slow_bytes_ = 0;
  std::uint64_t slow_closed_ = 0;
  Histogram latencies_;
  Histogram answers_;  // the time from a request to its answer
};

Options read_options(int argc, char** argv) {
  std::map<std::string_view, const char*> given;
  for (int i = 1; i + 1 < argc; i += 2) given[argv[i]] = argv[i + 1];
  const auto value = [&](std::string_view name) {
    const auto found = given.find(name);
    if (found == given.end()) give_up("missing", name);
    return found->second;
  };
  const auto count = [&](std::string_view name) { return std::strtoul(value(name), nullptr, 10); };
  const auto count_or_none = [&](std::string_view name) { return given.contains(name) ? count(name) : 0; };
  const std::string_view server = value("--server");
  if (server != "sluice" && server != "centrifugo") give_up("--server sluice|centrifugo", server);
  const Options options{.sluice = server == "sluice",
                        .port = static_cast<std::uint16_t>(count("--port")),
                        .api_port = static_cast<std::uint16_t>(count("--api-port")),
                        .rooms = count("--rooms"),
                        .subscribers = count("--subscribers"),
                        .rate = std::strtod(value("--rate"), nullptr),
                        .seconds = std::strtod(value("--seconds"), nullptr),
                        .payload = count("--payload"),
                        .slow = count_or_none("--slow"),
                        .slow_rate = count_or_none("--slow-rate"),
                        .fill = count_or_none("--fill"),
                        .broadcast = count_or_none("--broadcast") != 0};
  if (options.rooms == 0 || options.subscribers == 0 || options.rate <= 0) give_up("nothing to do");
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = read_options(argc, argv);
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  prctl(PR_SET_TIMERSLACK, 1);  // publications are not late by the usual 50 us
  Load load(options);
  std::fputs("ready\n", stderr);
  load.wait_for_line();
  const bool good = load.run();
  std::array<char, 64> line;
  while (read(STDIN_FILENO, line.data(), line.size()) > 0) {
  }
  return good ? 0 : 1;
}
