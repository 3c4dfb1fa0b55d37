// The real HTTP server on a simulated network: an hour of virtual time with clients of every kind. Every
// correct request is answered with the right bytes in order, or its connection is closed. Nothing waits beyond its
// deadline. When all clients have gone, nothing is left.
#include <algorithm>
#include <cctype>
#include <charconv>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/simulated_reactor.h"
#include "http/server.h"
#include "http/spans_for_tests.h"
#include "net/stream.h"
#include "net/tls/test_certificates.h"
#include "simulation.h"

namespace sluice::sim {
namespace {

using core::Async;
using core::Task;
using http::Request;
using http::Response;

constexpr std::size_t file_size = 300'000;
constexpr std::uint64_t file_seed = 0;

// ---- Requests and their answers ----

// Most requests whose body is ignored are refused.
int status_of(std::string_view kind, std::uint64_t id) {
  if (kind == "ignore" && id % 4 != 0) return 403;
  return kind == "empty" ? 204 : 200;
}

// Everything about an answer follows from the request's target, /KIND/SIZE/NUMBER?id, and from its body.
struct Exchange {
  std::string method = "GET";
  std::string kind;
  std::size_t size = 0;
  std::uint64_t number = 0;
  std::uint64_t id = 0;
  std::string body;      // of the request
  bool chunked = false;  // the request's body
  bool expects_continue = false;
  bool close = false;  // the request asks for the connection to be closed
  bool http10 = false;

  [[nodiscard]] std::string target() const {
    return "/" + kind + "/" + std::to_string(size) + "/" + std::to_string(number) + "?" + std::to_string(id);
  }
  [[nodiscard]] int status() const { return status_of(kind, id); }
  [[nodiscard]] std::string answer() const {
    if (kind == "empty") return {};
    if (kind == "echo" || kind == "slow-echo") return body;
    if (kind == "file") return pattern(file_seed, file_size).substr(number, size);
    return pattern(id, size);
  }
  [[nodiscard]] bool breaks() const { return kind == "break"; }
};

struct Target {
  std::string_view kind;
  std::size_t size = 0;
  std::uint64_t number = 0;
  std::uint64_t id = 0;
};

std::uint64_t number_of(std::string_view digits) {
  std::uint64_t value = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return value;
}

Target parse_target(const Request& request) {
  Target target;
  std::string_view rest = request.path.substr(1);
  const auto next = [&rest] {
    const std::string_view piece = rest.substr(0, rest.find('/'));
    rest.remove_prefix(std::min(rest.size(), piece.size() + 1));
    return piece;
  };
  target.kind = next();
  target.size = number_of(next());
  target.number = number_of(next());
  target.id = number_of(request.query);
  return target;
}

// ---- The handler ----

struct Ledger {
  int sources = 0;  // live body sources
  int waiting = 0;
};

class Counted {
 public:
  explicit Counted(int& count) : count_(count) { ++count_; }
  Counted(const Counted&) = delete;
  ~Counted() { --count_; }

 private:
  int& count_;
};

class PatternSource final : public http::BodySource {
 public:
  PatternSource(core::Reactor& reactor, Ledger& ledger, const Target& target)
      : reactor_(reactor),
        counted_(ledger.sources),
        random_(target.id),
        bytes_(pattern(target.id, target.size)),
        breaks_(target.kind == "break"),
        delays_(target.kind == "delayed" || (breaks_ && target.id % 2 == 0)),
        count_(std::to_string(target.size)),
        trailer_{"x-count", count_} {}

  Async<Result<Progress>> pull(Buffer& out) override {
    if (delays_ && random_.chance(0.5)) return pull_later(out);
    return pull_now(out);
  }
  std::span<const http::Field> trailers() const override { return {&trailer_, 1}; }

 private:
  Task<Result<Progress>> pull_later(Buffer& out) {
    co_await Sleep(reactor_, random_.up_to(800ms));
    co_return pull_now(out);
  }
  Result<Progress> pull_now(Buffer& out) {
    const std::size_t left = bytes_.size() - given_;
    if (left == 0) {
      if (breaks_) return fail(Errc::closed);
      return Progress::done;
    }
    const std::size_t piece = random_.between(1, std::min<std::size_t>(left, 20'000));
    out.append(std::string_view(bytes_).substr(given_, piece));
    given_ += piece;
    if (given_ == bytes_.size() && !breaks_ && random_.chance(0.5)) return Progress::done;
    return Progress::more;
  }

  core::Reactor& reactor_;
  Counted counted_;
  Random random_;
  std::string bytes_;
  std::size_t given_ = 0;
  bool breaks_;
  bool delays_;
  std::string count_;
  http::Field trailer_;
};

class PatternHandler final : public http::Handler {
 public:
  explicit PatternHandler(core::Reactor& reactor)
      : reactor_(reactor), file_(std::tmpfile(), &std::fclose), random_(seed() + 1) {
    const std::string bytes = pattern(file_seed, file_size);
    if (std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) != bytes.size()) std::abort();
    std::fflush(file_.get());
  }

  Async<Response> handle(http::Exchange& exchange) override {
    Request& request = exchange.request;
    ++requests;
    const Target target = parse_target(request);
    if (target.kind == "late") return answer_late(request);
    if (request.body != nullptr && target.kind != "ignore") return answer_after_body(request);
    return answer(target, {});
  }

  // Whether nothing that the handler has given out is still in use.
  [[nodiscard]] bool nothing_lent() const {
    return ledger.sources == 0 && ledger.waiting == 0 && file_.use_count() == 1 && lent_.use_count() == 1;
  }

  std::uint64_t requests = 0;
  Ledger ledger;

 private:
  Response answer(const Target& target, std::string_view body) {
    Response response;
    response.fields.add_owned("X-Id", std::to_string(target.id));
    response.status = status_of(target.kind, target.id);
    if (target.kind == "empty") {
      // No body.
    } else if (target.kind == "echo" || target.kind == "slow-echo") {
      Buffer bytes;
      bytes.append(body);
      response.body = std::move(bytes);
    } else if (target.kind == "shared") {
      auto bytes = std::make_shared<Shared>(lent_, pattern(target.id, target.size));
      const std::string_view view = bytes->bytes;
      response.body = http::SharedBytes{std::move(bytes), view};
    } else if (target.kind == "spans") {
      response.body = http::in_pieces(pattern(target.id, target.size), 1 + target.id % 3000, lent_);
    } else if (target.kind == "file") {
      response.body = http::FileRange{file_, ::fileno(file_.get()), target.number, target.size};
    } else if (target.kind == "stream" || target.kind == "delayed" || target.kind == "break") {
      response.body = std::make_unique<PatternSource>(reactor_, ledger, target);
    } else {
      Buffer bytes;
      bytes.append(pattern(target.id, target.size));
      response.body = std::move(bytes);
    }
    return response;
  }
  Task<Response> answer_late(Request& request) {
    Counted waiting(ledger.waiting);
    co_await Sleep(reactor_, std::chrono::milliseconds(parse_target(request).number));
    co_return answer(parse_target(request), {});
  }
  Task<Response> answer_after_body(Request& request) {
    Counted waiting(ledger.waiting);
    std::string body;
    for (;;) {
      auto piece = co_await request.body->read();
      if (!piece) co_return http::problem(400);
      if (piece->empty()) break;
      body += *piece;
      if (parse_target(request).kind == "slow-echo") co_await Sleep(reactor_, random_.up_to(50ms));
    }
    co_return answer(parse_target(request), body);
  }

  struct Shared {
    std::shared_ptr<int> lent;
    std::string bytes;
  };
  core::Reactor& reactor_;
  std::shared_ptr<std::FILE> file_;
  std::shared_ptr<int> lent_ = std::make_shared<int>();
  Random random_;
};

// ---- The clients ----

struct Answer {
  enum class End { whole, cut, timed_out } end = End::cut;
  int status = 0;
  std::map<std::string, std::string> fields;  // names in lower case
  std::string body;
  bool has_head = false;
  bool closes = false;
};

class AnswerReader {
 public:
  AnswerReader(net::Stream& stream, Random& random, bool slow) : stream_(stream), random_(random), slow_(slow) {}

  Task<Answer> read(bool head_only) {
    Answer answer;
    answer.end = co_await read_into(answer, head_only);
    co_return answer;
  }
  // Returns true if the connection has ended without any more bytes.
  Task<bool> at_end() { co_return buffered_.empty() && co_await fill() == Filled::end; }

  Duration patience = 90s;
  std::string malformed;  // which rule the server broke; empty: none

 private:
  enum class Filled { more, end, cut, timed_out };

  Task<Filled> fill() {
    if (slow_ && random_.chance(0.2)) co_await Sleep(stream_.reactor(), random_.up_to(2s));
    const std::size_t most = slow_ ? 10'000 : random_.between(1, 70'000);
    const auto got = co_await stream_.read(buffered_, most, stream_.reactor().now() + patience);
    if (got) co_return *got == 0 ? Filled::end : Filled::more;
    co_return got.error().code == Errc::timed_out ? Filled::timed_out : Filled::cut;
  }
  static Answer::End as_end(Filled filled) {
    return filled == Filled::timed_out ? Answer::End::timed_out : Answer::End::cut;
  }
  Answer::End broken(std::string what) {
    malformed = std::move(what);
    return Answer::End::cut;
  }

  Task<Answer::End> read_into(Answer& answer, bool head_only) {
    std::string line;
    do {
      if (auto filled = co_await read_line(line); filled != Filled::more) co_return as_end(filled);
      if (!line.starts_with("HTTP/1.1 ") || line.size() < 13) co_return broken("status line: " + line);
      answer.status = static_cast<int>(number_of(std::string_view(line).substr(9, 3)));
      answer.fields.clear();
      if (auto filled = co_await read_fields(answer.fields); filled != Filled::more) co_return as_end(filled);
    } while (answer.status == 100);
    answer.has_head = true;
    answer.closes = answer.fields["connection"] == "close";
    if (!answer.fields["date"].ends_with(" GMT")) co_return broken("no date");
    if (head_only || answer.status == 204 || answer.status == 304) co_return Answer::End::whole;

    if (answer.fields["transfer-encoding"] == "chunked") {
      if (answer.fields.contains("content-length")) co_return broken("both framings");
      for (;;) {
        if (auto filled = co_await read_line(line); filled != Filled::more) co_return as_end(filled);
        std::size_t size = 0;
        const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), size, 16);
        if (error != std::errc{} || end != line.data() + line.size()) co_return broken("chunk size: " + line);
        if (size == 0) break;
        if (auto filled = co_await read_bytes(answer.body, size); filled != Filled::more) co_return as_end(filled);
        if (auto filled = co_await read_line(line); filled != Filled::more) co_return as_end(filled);
        if (!line.empty()) co_return broken("chunk's end");
      }
      if (auto filled = co_await read_fields(answer.fields); filled != Filled::more) co_return as_end(filled);
      co_return Answer::End::whole;
    }
    if (answer.fields.contains("content-length")) {
      const std::size_t size = number_of(answer.fields["content-length"]);
      if (auto filled = co_await read_bytes(answer.body, size); filled != Filled::more) co_return as_end(filled);
      co_return Answer::End::whole;
    }
    if (!answer.closes) co_return broken("no framing");
    for (;;) {
      answer.body += buffered_.view();
      buffered_.clear();
      const Filled filled = co_await fill();
      if (filled == Filled::end) co_return Answer::End::whole;
      if (filled != Filled::more) co_return as_end(filled);
    }
  }
  Task<Filled> read_line(std::string& line) {
    for (;;) {
      const auto end = buffered_.view().find("\r\n");
      if (end != std::string_view::npos) {
        line = buffered_.view().substr(0, end);
        buffered_.consume(end + 2);
        co_return Filled::more;
      }
      if (const Filled filled = co_await fill(); filled != Filled::more) co_return filled;
    }
  }
  Task<Filled> read_fields(std::map<std::string, std::string>& fields) {
    std::string line;
    for (;;) {
      if (const Filled filled = co_await read_line(line); filled != Filled::more) co_return filled;
      if (line.empty()) co_return Filled::more;
      const auto colon = line.find(": ");
      if (colon == std::string::npos) {
        malformed = "field: " + line;
        co_return Filled::cut;
      }
      std::string name = line.substr(0, colon);
      for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      if (!fields.emplace(std::move(name), line.substr(colon + 2)).second) malformed = "twice: " + line;
    }
  }
  Task<Filled> read_bytes(std::string& into, std::size_t size) {
    while (size != 0) {
      const std::string_view piece = buffered_.view().substr(0, size);
      into += piece;
      size -= piece.size();
      buffered_.consume(piece.size());
      if (size == 0) break;
      if (const Filled filled = co_await fill(); filled != Filled::more) co_return filled;
    }
    co_return Filled::more;
  }

  net::Stream& stream_;
  Random& random_;
  bool slow_;
  Buffer buffered_;
};

struct Tally {
  std::uint64_t asked = 0;
  std::uint64_t answered = 0;
  std::uint64_t early = 0;   // answered before the request's body was complete
  std::uint64_t closed = 0;  // the connection closed instead of an answer
  std::uint64_t unconnected = 0;
  std::uint64_t rude = 0;
  std::uint64_t told_off = 0;  // rude clients that got a status of 400 or more
  std::map<int, std::uint64_t> statuses;
};

// The TLS contexts of both ends of every simulated connection.
struct Credentials {
  std::shared_ptr<const net::tls::ServerContext> server;
  std::shared_ptr<const net::tls::ClientContext> client;
};
const Credentials& credentials() {
  static const Credentials made = [] {
    const net::tls::testing::Authority authority;
    return Credentials{*net::tls::ServerContext::make({.certificates = {authority.issue("sim", {.names = {"sim"}})}}),
                       *net::tls::ClientContext::make({.ca_file = authority.file()})};
  }();
  return made;
}

class World {
 public:
  enum class Security : bool { none, tls };
  World(std::uint64_t seed, const core::Faults& faults, bool lossy, const http::ServerOptions& options = {},
        Security security = Security::none)
      : reactor(seed, faults),
        handler(reactor),
        server(reactor, handler, options),
        options_(options),
        lossy_(lossy),
        tls_(security == Security::tls),
        random_(seed) {
    if (tls_) server.set_tls(credentials().server, net::tls::TicketKeys::make());
    address_ = *server.listen(*core::Address::parse("127.0.0.1:0"), tls_);
  }

  void populate(int sessions, Duration time, double rude_share) {
    for (int i = 0; i < sessions; ++i) {
      clients.spawn(session(random_.next(), random_.up_to(time), random_.chance(rude_share)));
    }
  }
  // Runs until all clients have gone. Returns false if they never will.
  bool run() {
    while (!clients.empty() && !testing::Test::HasFatalFailure() && failures_ < 10) {
      if (reactor.deadlocked()) {
        ADD_FAILURE() << clients.size() << " clients wait for ever";
        return false;
      }
      reactor.turn(never);
    }
    return clients.empty();
  }
  // When all clients have gone, the server's own deadlines end the rest.
  void expect_nothing_left() {
    const Instant end = reactor.now() + options_.idle_timeout + options_.write_timeout + 30s;
    while (!reactor.deadlocked() && reactor.now() < end) reactor.turn(end);
    EXPECT_TRUE(reactor.deadlocked()) << reactor.timers().size() << " timers";
    EXPECT_EQ(server.counters().open, 0u);
    EXPECT_EQ(reactor.open_handles(), 1u) << "the listener";
    EXPECT_TRUE(handler.nothing_lent());
  }

  core::SimulatedReactor reactor;
  PatternHandler handler;
  http::Server server;
  net::tls::CoreState client_tls;
  core::TaskGroup clients;
  Tally tally;
  bool draining = false;  // the server may end any connection after an answer, and refuse new ones

  // Sends two requests with a pause of `time` between them; the head of each has `size` bytes.
  Task<void> pause(std::size_t size, Duration time) {
    Random random(size);
    net::Stream stream(reactor);
    EXPECT_TRUE(co_await stream.connect(address_, reactor.now() + 1s));
    AnswerReader reader(stream, random, false);
    const std::string begin = "GET /bytes/10/0?1 HTTP/1.1\r\nHost: sim\r\nX-Padding: ";
    std::string head = begin + std::string(size - begin.size() - 4, 'p') + "\r\n\r\n";
    for (int i = 0; i < 2; ++i) {
      iovec part{head.data(), head.size()};
      if (!co_await stream.write({&part, 1}, 1s)) co_return;
      const Answer answer = co_await reader.read(false);
      if (answer.end != Answer::End::whole || answer.status != 200) co_return;
      ++tally.answered;
      if (i == 0) co_await Sleep(reactor, time);
    }
  }

  Task<void> session(std::uint64_t seed, Duration begin, bool rude) {
    Random random(seed);
    co_await Sleep(reactor, begin);
    const std::uint64_t connections = random.between(1, 3);
    for (std::uint64_t i = 0; i < connections && !draining; ++i) {
      net::Stream stream(reactor);
      if (auto connected = co_await stream.connect(address_, reactor.now() + 200s); !connected) {
        ++tally.unconnected;
        if (!lossy_ && !draining) complain("connect", connected.error().text());
        continue;
      }
      // Rude clients misbehave in turns, so that there are some of each kind; in every third round without a TLS
      // handshake.
      const std::uint64_t turn = rude ? misbehaved_++ : 0;
      if (tls_ && !(rude && turn / ways_to_misbehave % 3 == 0)) {
        const auto done = co_await stream.connect_tls(credentials().client, "sim", client_tls, reactor.now() + 30s);
        if (!done) {
          ++tally.unconnected;
          if (!draining && !excused(stream)) complain("handshake", stream.tls()->failure_text() + done.error().text());
          continue;
        }
      }
      if (rude) {
        ++tally.rude;
        co_await misbehave(stream, random, turn % ways_to_misbehave);
      } else {
        co_await converse(stream, random);
      }
      co_await Sleep(reactor, random.up_to(5s));
    }
  }

 private:
  void complain(const std::string& who, const std::string& what) {
    ++failures_;
    ADD_FAILURE() << who << ": " << what;
  }

  static std::size_t some_size(Random& random) {
    if (random.chance(0.6)) return random.below(300);
    if (random.chance(0.8)) return random.below(20'000);
    return random.below(250'000);
  }
  Exchange some_exchange(Random& random, bool last, bool impatient) {
    static constexpr const char* kinds[] = {"empty", "bytes", "shared", "spans", "file", "stream", "delayed", "late"};
    static constexpr const char* with_body[] = {"echo", "slow-echo", "ignore"};
    Exchange exchange;
    exchange.id = ++last_id_;
    exchange.size = some_size(random);
    if (random.chance(0.25)) {
      exchange.method = "POST";
      exchange.kind = with_body[random.below(std::size(with_body))];
      exchange.body = pattern(exchange.id + 1, some_size(random));
      exchange.chunked = random.chance(0.5);
      exchange.expects_continue = random.chance(0.1);
    } else {
      exchange.kind = kinds[random.below(std::size(kinds))];
      if (random.chance(0.1)) exchange.method = "HEAD";
      if (exchange.kind == "late") exchange.number = random.below(impatient ? 900 : 5000);
      if (exchange.kind == "file") exchange.number = random.below(file_size - exchange.size);
    }
    if (!last) return exchange;
    if (exchange.method == "GET" && random.chance(0.1)) {
      exchange.kind = "break";
      if (random.chance(0.3)) exchange.size = 0;  // breaks before the first byte
    }
    exchange.close = random.chance(0.2);
    exchange.http10 = !exchange.chunked && !exchange.expects_continue && random.chance(0.1);
    return exchange;
  }

  static std::string head_of(const Exchange& exchange) {
    std::string text = exchange.method + " " + exchange.target() + (exchange.http10 ? " HTTP/1.0" : " HTTP/1.1") +
                       "\r\nHost: sim\r\nUser-Agent: simulation\r\n";
    if (exchange.id % 3 == 0) text += "TE: trailers\r\nX-Padding: " + std::string(exchange.id % 1000, 'p') + "\r\n";
    if (exchange.chunked) {
      text += "Transfer-Encoding: chunked\r\n";
    } else if (exchange.method == "POST") {
      text += "Content-Length: " + std::to_string(exchange.body.size()) + "\r\n";
    }
    if (exchange.expects_continue) text += "Expect: 100-continue\r\n";
    if (exchange.close) text += "Connection: close\r\n";
    return text + "\r\n";
  }
  static std::string body_of(const Exchange& exchange, Random& random) {
    if (!exchange.chunked) return exchange.body;
    std::string text;
    char size[32];
    for (std::size_t at = 0; at < exchange.body.size();) {
      const std::size_t piece = random.between(1, std::min<std::size_t>(exchange.body.size() - at, 9000));
      std::snprintf(size, sizeof size, random.chance(0.2) ? "%zX;a=\"b\"\r\n" : "%zx\r\n", piece);
      text += size + exchange.body.substr(at, piece) + "\r\n";
      at += piece;
    }
    return text + (random.chance(0.2) ? "0\r\nX-Trailer: 1\r\n\r\n" : "0\r\n\r\n");
  }

  // Writes in pieces, at times with pauses between them that are shorter than any deadline.
  Task<bool> write(net::Stream& stream, std::string_view bytes, Random& random) {
    const bool pieces = random.chance(0.4);
    int pauses = 0;
    while (!bytes.empty()) {
      const std::size_t size = pieces ? random.between(1, bytes.size()) : bytes.size();
      iovec part{const_cast<char*>(bytes.data()), size};
      // The server stops reading while the client does not read its answers, and slow clients take minutes.
      if (!co_await stream.write({&part, 1}, 600s)) co_return false;
      bytes.remove_prefix(size);
      if (!bytes.empty() && ++pauses < 8 && random.chance(0.5)) co_await Sleep(reactor, random.up_to(1s));
    }
    co_return true;
  }
  Task<void> write_all(net::Stream& stream, const std::vector<Exchange>& exchanges, std::uint64_t seed,
                       bool half_close) {
    Random random(seed);
    std::string bytes;
    for (const Exchange& exchange : exchanges) {
      bytes += head_of(exchange);
      bytes += body_of(exchange, random);
      if (random.chance(0.3)) {
        if (!co_await write(stream, bytes, random)) co_return;
        bytes.clear();
      }
    }
    if (!co_await write(stream, bytes, random)) co_return;
    if (half_close) (void)co_await stream.end(600s);
  }

  // A correct client: each of its requests is answered in order, or its connection is closed.
  Task<void> converse(net::Stream& stream, Random& random) {
    const bool pipelines = random.chance(0.5);
    const bool half_close = pipelines && random.chance(0.3);
    const bool slow = random.chance(0.1);
    const std::size_t count = random.between(1, pipelines ? 12 : 5);
    std::vector<Exchange> exchanges;
    for (std::size_t i = 0; i < count; ++i) {
      exchanges.push_back(some_exchange(random, i + 1 == count, half_close));
      if (pipelines) exchanges.back().expects_continue = false;
      // The server breaks off an answer to an HTTP/1.0 client with RST, which also discards earlier answers in flight.
      if (pipelines && exchanges.back().breaks()) exchanges.back().http10 = false;
    }
    tally.asked += count;
    AnswerReader reader(stream, random, slow);
    core::TaskGroup writing;
    if (pipelines) writing.spawn(write_all(stream, exchanges, random.next(), half_close));
    for (const Exchange& exchange : exchanges) {
      std::string held_back;  // the part of the body that is sent only when the answer has been read
      if (!pipelines) {
        if (!co_await write(stream, head_of(exchange), random)) {
          closed_instead(stream, exchange, "before its head");
          co_return;
        }
        const bool keeps = exchange.status() == 403 && exchange.size < 10'000;  // a long error ends the connection
        if (keeps && !slow && !exchange.expects_continue && !exchange.close && !exchange.http10) {
          held_back = body_of(exchange, random);
          const std::size_t sent = random.below(held_back.size() + 1);
          if (!co_await write(stream, std::string_view(held_back).substr(0, sent), random)) {
            closed_instead(stream, exchange, "within its body");
            co_return;
          }
          held_back.erase(0, sent);
        } else {
          // The body is sent while the answer is read, because 100 Continue may come first.
          writing.spawn(write_body(stream, exchange, random.next()));
        }
      }
      const Answer answer = co_await reader.read(exchange.method == "HEAD");
      if (!reader.malformed.empty()) {
        complain(exchange.target(), "the server sent " + reader.malformed);
        co_return;
      }
      if (!check(stream, exchange, answer, half_close)) co_return;
      if (answer.closes || exchange.http10) co_return;
      // An early answer: the next request begins behind the rest of the body.
      while (!pipelines && !writing.empty()) co_await Sleep(reactor, 10ms);
      if (!held_back.empty()) {
        ++tally.early;
        if (!co_await write(stream, held_back, random)) {
          closed_instead(stream, exchange, "behind its answer");
          co_return;
        }
      }
      if (!pipelines && !slow && random.chance(0.05)) co_await Sleep(reactor, random.up_to(options_.idle_timeout - 5s));
    }
    if (half_close && !co_await reader.at_end() && !excused(stream))
      complain("half-close", "the server did not end its side");
  }
  Task<void> write_body(net::Stream& stream, const Exchange& exchange, std::uint64_t seed) {
    Random random(seed);
    if (exchange.method != "POST") co_return;
    if (exchange.expects_continue) co_await Sleep(reactor, random.up_to(1s));
    (void)co_await write(stream, body_of(exchange, random), random);
  }

  // The connection may end early: the network broke it, or the server has too many connections.
  [[nodiscard]] bool excused(const net::Stream& stream) const {
    return expects_overload || reactor.broken_by_fault(stream.handle());
  }
  void closed_instead(const net::Stream& stream, const Exchange& exchange, const std::string& how) {
    ++tally.closed;
    if (!draining && !exchange.breaks() && !excused(stream))
      complain(exchange.target(), "the connection ended instead, " + how);
  }
  // Returns false if the conversation is over.
  bool check(const net::Stream& stream, const Exchange& exchange, const Answer& answer, bool half_closed) {
    const std::string who = exchange.method + " " + exchange.target() + (half_closed ? " (half-closed)" : "");
    const std::string right = exchange.method == "HEAD" ? "" : exchange.answer();
    if (answer.end != Answer::End::whole) {
      // The part that arrived must be right.
      if (answer.end == Answer::End::timed_out && !excused(stream)) complain(who, "no answer in time");
      if (answer.has_head && answer.status == exchange.status() && !right.starts_with(answer.body)) {
        complain(who, "wrong bytes before the end");
      }
      if (exchange.breaks() && !exchange.http10 && !draining && !answer.has_head && !excused(stream))
        complain(who, "cut before it began");
      closed_instead(
          stream, exchange,
          (half_closed ? "half-closed, after " : "after ") + std::to_string(answer.body.size()) + " bytes of its body");
      return false;
    }
    ++tally.statuses[answer.status];
    if (answer.status == 503 && answer.closes && expects_overload) return false;
    if (answer.status != exchange.status()) {
      complain(who, "status " + std::to_string(answer.status) + ": " + answer.body);
      return false;
    }
    // Over TLS, close_notify tells the end of the body from a cut.
    if (exchange.breaks() && (!exchange.http10 || tls_)) complain(who, "ended as if it were whole");
    const auto id = answer.fields.find("x-id");
    if (id == answer.fields.end() || id->second != std::to_string(exchange.id)) complain(who, "another one's answer");
    // Without TLS, an HTTP/1.0 client cannot tell an orderly close by the network from the end of the body.
    if (answer.body != right && (tls_ || !(exchange.breaks() && right.starts_with(answer.body)))) {
      complain(who, "wrong bytes");
    }
    const auto trailer = answer.fields.find("x-count");
    if (trailer != answer.fields.end() && trailer->second != std::to_string(exchange.size)) complain(who, "trailer");
    ++tally.answered;
    return true;
  }

  // A client that breaks rules or leaves. The server must end the connection within its deadlines.
  static constexpr std::uint64_t ways_to_misbehave = 10;
  Task<void> misbehave(net::Stream& stream, Random& random, std::uint64_t way) {
    const Instant begin = reactor.now();
    Duration bound = 10s;  // from now until the server has closed
    std::string bytes;
    Exchange exchange = some_exchange(random, false, false);
    switch (way) {
      case 0:  // garbage
        bytes = pattern(random.next(), random.between(1, 3000));
        for (char& c : bytes) {
          if (random.chance(0.3)) c = static_cast<char>(random.next());
        }
        bound = options_.header_timeout + 5s;
        break;
      case 1:  // part of a head, then silence
        bytes = head_of(exchange);
        bytes.resize(random.below(bytes.size()));
        bound = bytes.empty() ? options_.idle_timeout + 5s : options_.header_timeout + 5s;
        break;
      case 2:  // a body that never comes
        bytes = "POST /echo/0/0?1 HTTP/1.1\r\nHost: sim\r\nContent-Length: 5000\r\n\r\nbegin";
        bound = options_.body_timeout + 5s;
        break;
      case 3:  // silence between requests
        bound = options_.idle_timeout + 5s;
        break;
      case 4:  // a head over the limit
        bytes = "GET / HTTP/1.1\r\nHost: sim\r\nX-Long: " + std::string(options_.header_limit, 'x') + "\r\n\r\n";
        break;
      case 5:
        bytes = "POST /echo/0/0?1 HTTP/1.1\r\nHost: sim\r\nContent-Length: 99999999\r\n\r\n" + std::string(5000, 'x');
        break;
      case 6:  // leaves in the middle of its request
        bytes = head_of(exchange) + body_of(exchange, random);
        bytes.resize(random.between(1, bytes.size()));
        (void)co_await write(stream, bytes, random);
        if (random.chance(0.7)) reactor.reset_on_close(stream.handle());
        co_return;
      case 7: {  // sends requests and never reads
        for (int i = 0; i < 30; ++i)
          bytes += "GET /bytes/90000/0?" + std::to_string(i) + " HTTP/1.1\r\nHost: sim\r\n\r\n";
        iovec part{bytes.data(), bytes.size()};
        (void)co_await stream.write({&part, 1}, 10s);
        const Instant silent_until = reactor.now() + options_.write_timeout + 20s;
        if (random.chance(0.5)) co_await Sleep(reactor, silent_until - reactor.now());
        co_return;
      }
      case 8:  // leaves in the middle of a stream
        bytes = "GET /delayed/200000/0?7 HTTP/1.1\r\nHost: sim\r\n\r\n";
        (void)co_await write(stream, bytes, random);
        co_await Sleep(reactor, random.up_to(2s));
        if (random.chance(0.5)) reactor.reset_on_close(stream.handle());
        co_return;
      default:  // leaves while it waits for a slow answer
        bytes = "GET /late/10/20000?7 HTTP/1.1\r\nHost: sim\r\n\r\n";
        (void)co_await write(stream, bytes, random);
        co_await Sleep(reactor, random.up_to(1s));
        if (random.chance(0.5)) {
          // Half-closed: the client gets only an answer that is ready within the grace period, and none is.
          reactor.shutdown_write(stream.handle());
          bound = options_.half_close_grace + 2s;
          bytes.clear();
          break;
        }
        if (random.chance(0.5)) reactor.reset_on_close(stream.handle());
        co_return;
    }
    if (!bytes.empty()) {
      iovec part{bytes.data(), bytes.size()};
      (void)co_await stream.write({&part, 1}, 10s);
      if (random.chance(0.2)) reactor.shutdown_write(stream.handle());
    }
    AnswerReader reader(stream, random, false);
    reader.patience = bound + 1s;
    for (;;) {
      const Answer answer = co_await reader.read(false);
      if (answer.status >= 400) {
        ++tally.told_off;
        ++tally.statuses[answer.status];
      }
      if (answer.end == Answer::End::timed_out) {
        if (!excused(stream)) complain("rude client", "the server did not end it: " + bytes.substr(0, 60));
        co_return;
      }
      if (answer.end == Answer::End::cut) break;
      if (answer.closes) {
        (void)co_await reader.at_end();
        break;
      }
    }
    if (!excused(stream) && reactor.now() - begin > bound + 10s)
      complain("rude client", "ended too late: " + bytes.substr(0, 60));
  }

 public:
  bool expects_overload = false;

 private:
  http::ServerOptions options_;
  bool lossy_;  // connecting may fail
  bool tls_;
  Random random_;
  core::Address address_;
  std::uint64_t last_id_ = 0;
  std::uint64_t misbehaved_ = 0;
  int failures_ = 0;
};

core::Faults calm() {
  return {.short_read = 0.1, .short_write = 0.1, .would_block = 0.1, .split = 0.2, .stall = 0.003};
}
core::Faults storm() {
  core::Faults faults = calm();
  faults.short_read = faults.short_write = faults.would_block = 0.3;
  faults.stall = 0.02;
  faults.reset = 0.005;
  faults.vanish = 0.002;
  faults.refuse = 0.02;
  faults.accept_error = 0.1;
  faults.accept_abort = 0.02;
  faults.buffer = 20'000;
  return faults;
}

constexpr int sessions = sanitized ? 600 : 4000;
constexpr int tls_sessions = sanitized ? 250 : 1000;

void print(const char* name, const World& world) {
  const Tally& tally = world.tally;
  std::printf("%s: %.0f s, %llu turns; %llu requests: %llu answered, %llu closed; %llu rude clients, %llu told off\n",
              name, std::chrono::duration<double>(world.reactor.now().time_since_epoch()).count() - 3600,
              static_cast<unsigned long long>(world.reactor.counters().turns),
              static_cast<unsigned long long>(tally.asked), static_cast<unsigned long long>(tally.answered),
              static_cast<unsigned long long>(tally.closed), static_cast<unsigned long long>(tally.rude),
              static_cast<unsigned long long>(tally.told_off));
}

TEST(HttpSoak, InCalmWeatherEveryRequestIsAnswered) {
  World world(seed(), calm(), false);
  world.populate(sessions, 1h, 0.2);
  ASSERT_TRUE(world.run());
  world.expect_nothing_left();
  print("calm", world);
  EXPECT_GT(world.tally.answered, static_cast<std::uint64_t>(sessions) * 5);
  EXPECT_GT(world.tally.told_off, static_cast<std::uint64_t>(sessions) / 20);
  EXPECT_GT(world.tally.early, 0u);
  for (const int status : {200, 204, 400, 403, 408, 413, 431}) EXPECT_GT(world.tally.statuses[status], 0u) << status;
}

TEST(HttpSoak, InAStormEveryRequestIsAnsweredOrItsConnectionClosed) {
  World world(seed() + 1, storm(), true);
  world.populate(sessions, 1h, 0.2);
  ASSERT_TRUE(world.run());
  world.expect_nothing_left();
  print("storm", world);
  EXPECT_GT(world.tally.answered, world.tally.asked / 4);
  EXPECT_GT(world.tally.closed, 0u);
  EXPECT_GT(world.reactor.counters().resets, 0u);
  EXPECT_GT(world.reactor.counters().vanished, 0u);
  EXPECT_GT(world.reactor.counters().accept_errors, 0u);
}

// Many seeds, few clients each. SLUICE_WORLDS says how many.
TEST(HttpSoak, SmallWorldsOfEveryWeather) {
  const char* const given = std::getenv("SLUICE_WORLDS");
  const std::uint64_t worlds = given != nullptr ? number_of(given) : 20;
  std::uint64_t early = 0;
  for (std::uint64_t n = 0; n < worlds && !HasFailure(); ++n) {
    SCOPED_TRACE("SLUICE_SEED=" + std::to_string(seed() + n) + " SLUICE_WORLDS=1");
    // The seed alone says which world it is.
    const std::uint64_t world_seed = seed() + n;
    const bool storms = world_seed % 2 != 0;
    World world(world_seed, storms ? storm() : calm(), storms, {},
                world_seed % 4 < 2 ? World::Security::none : World::Security::tls);
    world.populate(30, 1min, 0.2);
    ASSERT_TRUE(world.run());
    world.expect_nothing_left();
    early += world.tally.early;
  }
  EXPECT_TRUE(worlds < 20 || early > 0);
}

TEST(HttpSoak, OverTlsEveryRequestIsAnsweredInCalmWeather) {
  World world(seed() + 4, calm(), false, {}, World::Security::tls);
  world.populate(tls_sessions, 1h, 0.2);
  ASSERT_TRUE(world.run());
  world.expect_nothing_left();
  print("calm, TLS", world);
  EXPECT_GT(world.tally.answered, static_cast<std::uint64_t>(tls_sessions) * 5);
  EXPECT_GT(world.tally.told_off, static_cast<std::uint64_t>(tls_sessions) / 20);
  EXPECT_GT(world.server.counters().tls.handshakes, static_cast<std::uint64_t>(tls_sessions));
  EXPECT_GT(world.server.counters().tls.plain_http, 0u);
  EXPECT_GT(world.server.counters().tls.failed, 0u);
}

TEST(HttpSoak, OverTlsAStormDoesNotTurnACutIntoAnEnd) {
  World world(seed() + 5, storm(), true, {}, World::Security::tls);
  world.populate(tls_sessions, 1h, 0.2);
  ASSERT_TRUE(world.run());
  world.expect_nothing_left();
  print("storm, TLS", world);
  EXPECT_GT(world.tally.answered, world.tally.asked / 10);
  EXPECT_GT(world.tally.closed, 0u);
}

TEST(HttpSoak, OverTlsADrainEndsEveryConnectionAfterItsAnswer) {
  for (std::uint64_t round = 0; round < (sanitized ? 2 : 10); ++round) {
    World world(seed() + 300 + round, calm(), false, {}, World::Security::tls);
    world.populate(100, 5s, 0.1);
    const Instant end = world.reactor.now() + 2s;
    while (world.reactor.now() < end) world.reactor.turn(end);
    EXPECT_GT(world.server.counters().open, 0u);
    world.draining = true;
    world.server.drain();
    const Instant latest = world.reactor.now() + 120s;
    while (!world.server.drained() && world.reactor.now() < latest) world.reactor.turn(latest);
    EXPECT_TRUE(world.server.drained());
    ASSERT_TRUE(world.run());
    EXPECT_EQ(world.reactor.open_handles(), 0u);
    EXPECT_TRUE(world.handler.nothing_lent());
  }
}

// Between two requests the idle timeout counts, whatever the size of the first one.
TEST(HttpSoak, AConnectionMayBeIdleForItsWholeTime) {
  for (std::size_t size = 256; size <= 16 * 1024; size += 256) {
    World world(size, {}, false);
    world.clients.spawn(world.pause(size, 55s));
    ASSERT_TRUE(world.run());
    EXPECT_EQ(world.tally.answered, 2u) << "a head of " << size << " bytes";
  }
}

TEST(HttpSoak, ADrainEndsIdleConnectionsAtOnce) {
  for (std::size_t size = 256; size <= 16 * 1024; size += 256) {
    World world(size, {}, false);
    world.clients.spawn(world.pause(size, 55s));
    const Instant end = world.reactor.now() + 2s;
    while (world.reactor.now() < end) world.reactor.turn(end);
    EXPECT_EQ(world.tally.answered, 1u);
    world.server.drain();
    const Instant latest = world.reactor.now() + 5s;
    while (!world.server.drained() && world.reactor.now() < latest) world.reactor.turn(latest);
    EXPECT_TRUE(world.server.drained()) << "a head of " << size << " bytes";
    world.clients.cancel();
  }
}

TEST(HttpSoak, TheSameSeedGivesTheSameHistory) {
  std::uint64_t histories[2];
  for (std::uint64_t& history : histories) {
    World world(seed() + 2, storm(), true);
    world.populate(100, 1min, 0.3);
    ASSERT_TRUE(world.run());
    history = world.reactor.history();
  }
  EXPECT_EQ(histories[0], histories[1]);
}

TEST(HttpSoak, ADrainEndsEveryConnectionAfterItsAnswer) {
  for (std::uint64_t round = 0; round < (sanitized ? 5 : 30); ++round) {
    World world(seed() + 100 + round, calm(), false);
    world.populate(100, 5s, 0.1);
    const Instant end = world.reactor.now() + 2s;
    while (world.reactor.now() < end) world.reactor.turn(end);
    EXPECT_GT(world.server.counters().open, 0u);
    world.draining = true;
    world.server.drain();
    const Instant latest = world.reactor.now() + 120s;
    while (!world.server.drained() && world.reactor.now() < latest) world.reactor.turn(latest);
    EXPECT_TRUE(world.server.drained());
    EXPECT_EQ(world.server.counters().open, 0u);
    ASSERT_TRUE(world.run());
    EXPECT_EQ(world.reactor.open_handles(), 0u);
    EXPECT_TRUE(world.handler.nothing_lent());
  }
}

TEST(HttpSoak, BeyondTheLimitOfConnectionsIsRefusal) {
  World world(seed() + 3, calm(), true, {.connections = 20});
  world.expects_overload = true;
  world.populate(300, 20s, 0.2);
  ASSERT_TRUE(world.run());
  world.expect_nothing_left();
  print("crowd", world);
  EXPECT_GT(world.server.counters().refused, 0u);
  EXPECT_GT(world.tally.statuses[503], 0u);
  EXPECT_GT(world.tally.answered, 0u);
}

TEST(HttpSoak, DestroyingTheServerCutsWhatIsOpen) {
  for (std::uint64_t round = 0; round < 10; ++round) {
    auto world = std::make_unique<World>(seed() + 200 + round, calm(), true);
    world->populate(100, 5s, 0.2);
    const Instant end = world->reactor.now() + 3s;
    while (world->reactor.now() < end) world->reactor.turn(end);
    EXPECT_GT(world->server.counters().open, 0u);
    world->clients.cancel();
  }
}

}  // namespace
}  // namespace sluice::sim
