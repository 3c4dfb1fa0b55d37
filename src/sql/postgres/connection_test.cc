#include "sql/postgres/connection.h"

#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sql/postgres/database.h"
#include "sql/postgres/messages.h"
#include "sql/postgres/types.h"

namespace sluice::sql::postgres {
namespace {

using namespace std::string_literals;
using core::Task;

std::string u16(unsigned value) { return {static_cast<char>(value >> 8), static_cast<char>(value)}; }
std::string u32(std::uint32_t value) { return u16(value >> 16) + u16(value & 0xffff); }
std::string message(char type, const std::string& payload) {
  return type + u32(static_cast<std::uint32_t>(payload.size() + 4)) + payload;
}
const std::string ready = message('Z', "I");
// The answer to the SET that precedes the first request that reads.
const std::string made_read_only = message('C', "SET\0"s) + ready;
bool makes_read_only(std::string_view packet) { return packet.contains("SET default_transaction_read_only = on"); }
const std::string started = message('R', u32(0)) + message('K', u32(1) + u32(2)) + ready;

// A server with scripted answers: it sends `script[i]` after the client's i-th packet, and repeats the last answer. An
// empty string closes the connection. It serves one connection after another until it is destroyed.
class ScriptedServer {
 public:
  explicit ScriptedServer(std::vector<std::string> script) : script_(std::move(script)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(listener_, 16), 0);
    EXPECT_EQ(::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port = ntohs(address.sin_port);
    EXPECT_EQ(::pipe(stop_), 0);
    thread_ = std::thread([this] { serve(); });
  }
  ~ScriptedServer() {
    ::close(stop_[1]);
    thread_.join();
    ::close(stop_[0]);
    ::close(listener_);
  }

  std::uint16_t port = 0;

 private:
  bool wait(int fd) {
    pollfd fds[2] = {{fd, POLLIN, 0}, {stop_[0], POLLIN, 0}};
    return ::poll(fds, 2, -1) > 0 && fds[1].revents == 0;
  }
  void serve() {
    while (wait(listener_)) {
      const int client = ::accept(listener_, nullptr, nullptr);
      char bytes[65536];
      for (std::size_t i = 0; wait(client); ++i) {
        const auto size = ::recv(client, bytes, sizeof bytes, 0);
        if (size <= 0) break;
        std::string answer = script_[std::min(i, script_.size() - 1)];
        if (answer.empty()) break;
        if (makes_read_only({bytes, static_cast<std::size_t>(size)})) answer = made_read_only + answer;
        if (::send(client, answer.data(), answer.size(), MSG_NOSIGNAL) < 0) break;
      }
      ::close(client);
    }
  }

  std::vector<std::string> script_;
  int listener_ = -1;
  int stop_[2] = {-1, -1};
  std::thread thread_;
};

// A server that receives a cancel too late: it has already answered the look-up to be cancelled, and the signal hits
// the next one. The repeated request gets `second`.
class LateCancelServer {
 public:
  LateCancelServer(std::string first, std::string second) : first_(std::move(first)), second_(std::move(second)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(listener_, 16), 0);
    EXPECT_EQ(::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~LateCancelServer() {
    join();
    ::close(listener_);
  }
  void join() {
    if (thread_.joinable()) thread_.join();
  }

  std::uint16_t port = 0;
  bool was_cancelled = false;  // valid after join(), with the next member
  bool was_asked_before_signal = false;

 private:
  static bool readable(int fd, int patience_ms) {
    pollfd one{fd, POLLIN, 0};
    return ::poll(&one, 1, patience_ms) > 0;
  }
  static std::string receive(int fd) {
    char bytes[4096];
    const auto size = readable(fd, 10'000) ? ::recv(fd, bytes, sizeof bytes, 0) : 0;
    return {bytes, static_cast<std::size_t>(std::max<ssize_t>(size, 0))};
  }
  static void send(int fd, const std::string& bytes) {
    EXPECT_EQ(::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }
  void serve() {
    const int session = readable(listener_, 10'000) ? ::accept(listener_, nullptr, nullptr) : -1;
    (void)receive(session);
    send(session, started);
    if (makes_read_only(receive(session))) send(session, made_read_only);
    const int cancel = readable(listener_, 10'000) ? ::accept(listener_, nullptr, nullptr) : -1;
    was_cancelled = receive(cancel) == u32(16) + u32(80877102) + u32(1) + u32(2);
    send(session, first_);
    was_asked_before_signal = readable(session, 100);
    ::close(cancel);
    if (!receive(session).empty()) send(session, second_);
    while (!receive(session).empty()) {
    }
    ::close(session);
  }

  const std::string first_;
  const std::string second_;
  int listener_ = -1;
  std::thread thread_;
};

class ConnectionTest : public testing::Test {
 public:
  // Asks a server with this script for one row of two columns; returns the rows or the error.
  Result<std::size_t> ask(std::vector<std::string> script, bool one_row, std::uint32_t timeout_ms = 200) {
    ScriptedServer server(std::move(script));
    Options options;
    options.addresses = {*core::Address::from_ip("127.0.0.1", server.port)};
    options.user = options.database = "u";
    options.password = "secret";
    options.wait_ms = 300;
    options.connect_timeout_ms = 150;
    options.statement_timeout_ms = timeout_ms;
    options.batch = batch;
    Database database(*reactor, options);
    Statement statement;
    statement.id = {.slot = 0, .serial = 1};
    statement.text = "SELECT";
    statement.columns = {{"a", builtin_type(23)}, {"b", builtin_type(25)}};
    statement.one_row = one_row;
    std::vector<std::optional<Result<std::size_t>>> results(requests);
    core::TaskGroup tasks;
    for (auto& result : results)
      tasks.spawn([](Database& db, const Statement& s, std::optional<Result<std::size_t>>& into) -> Task<void> {
        auto cursor = co_await db.query(s, {}, {});
        if (!cursor) {
          into = std::unexpected(cursor.error());
          co_return;
        }
        std::size_t rows = 0;
        for (;;) {
          auto block = co_await (*cursor)->next();
          if (!block) {
            into = std::unexpected(block.error());
            co_return;
          }
          rows += block->rows;
          if (block->last) break;
        }
        into = rows;
      }(database, statement, result));
    const Instant end = reactor->now() + 10s;
    while (!tasks.empty() && reactor->now() < end) reactor->turn(reactor->now() + 10ms);
    EXPECT_TRUE(tasks.empty()) << "no answer at all";
    tasks.cancel();
    reactor->turn(reactor->now());
    for (const auto& result : results) {
      if (!result) return std::unexpected(Error{Failure::statement, {}, "hung", 0});
    }
    for (const auto& result : results) {
      if (!*result || **result != **results[0]) return *result;
    }
    return *results[0];
  }

  std::size_t batch = 1;
  std::size_t requests = 1;  // identical, and sent at the same time; ask() returns an error if one of them fails

  std::unique_ptr<core::Reactor> reactor = core::make_epoll_reactor();

  const std::string described =
      message('T', u16(2) + "a\0"s + u32(0) + u16(0) + u32(23) + u16(4) + u32(0xffffffff) + u16(0) + "b\0"s + u32(0) +
                       u16(0) + u32(25) + u16(4) + u32(0xffffffff) + u16(0));
  const std::string row = message('D', u16(2) + u32(1) + "7" + u32(3) + "abc");
  const std::string done = message('C', "SELECT 1\0"s) + ready;
  const std::string begin = message('1', "") + described + message('2', "");
};

TEST_F(ConnectionTest, AnHonestServerIsUnderstood) {
  EXPECT_EQ(ask({started, begin + row + done}, true), 1u);
  EXPECT_EQ(ask({started, begin + row + row + message('N', "SNOTICE\0C00000\0Mx\0\0"s) + row + done}, false, 0), 3u);
}

// Each of these answers ends the request with an error. None triggers an assertion or a hang.
TEST_F(ConnectionTest, AServerThatBreaksTheProtocolIsLeft) {
  const std::vector<std::string> answers = {
      "",                            // closes
      "D" + u32(0),                  // an impossible length
      "E" + u32(0x7fffffff),         // an error of two gigabytes
      "D" + u32(0x7fffffff) + "xx",  // a row over the limit
      begin + row + message('Z', "?"),
      begin + row + message('Z', ""),
      begin + row + done + ready,                          // one ReadyForQuery too many
      begin + message('R', u32(0)) + done,                 // in the wrong state
      begin + message('G', "\0\0\0"s) + done,              // COPY FROM STDIN
      begin + message('D', u16(1) + u32(1) + "7") + done,  // too few columns
      begin + message('D', u16(2) + u32(9) + "7") + done,
      begin + message('D', "") + done,
      done,                     // not described
      message('n', "") + done,  // no columns
      message('1', "") + message('n', "") + row + done,
      begin + message('E', "garbage"),
      message('T', u16(65535)) + done,
      begin + message('E', "SFATAL\0VFATAL\0C57P01\0Mgone\0\0"s),
      "HTTP/1.1 400 Bad Request\r\n\r\n",
  };
  for (const bool one_row : {true, false}) {
    for (std::size_t i = 0; i < answers.size(); ++i) {
      // A stray ReadyForQuery follows a correct answer. The answer counts, but the connection is closed.
      const auto result = ask({started, answers[i]}, one_row, one_row ? 200 : 0);
      if (i == 6) {
        EXPECT_EQ(result, 1u);
      } else {
        EXPECT_FALSE(result) << i;
      }
    }
  }
}

// The columns have an unknown type. The request waits for the catalog's answer, or for its failure.
TEST_F(ConnectionTest, TheAnswerAboutColumnsThatHaveChangedIsWaitedFor) {
  const std::string other =
      message('1', "") +
      message('T', u16(1) + "m\0"s + u32(0) + u16(0) + u32(99999) + u16(4) + u32(0xffffffff) + u16(0)) +
      message('2', "") + message('D', u16(1) + u32(2) + "ok") + done;
  const std::string known = message('C', "SELECT 0\0"s) + ready;  // type not found: text
  const std::string refused = message('E', "SERROR\0VERROR\0C42501\0Mpermission denied\0\0"s) + ready;
  const std::string silent = message('N', "SNOTICE\0C00000\0Mx\0\0"s);
  EXPECT_EQ(ask({started, other, known, other}, true), 1u);
  const auto denied = ask({started, other, refused, other}, true);
  ASSERT_FALSE(denied);
  EXPECT_EQ(denied.error().sqlstate, "42501");
  const auto late = ask({started, other, silent}, true);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().failure, Failure::timed_out);
  const auto malformed = ask({started, other, message('D', u16(1) + u32(1) + "7") + ready}, true);
  ASSERT_FALSE(malformed);
}

// The request is repeated only once: a second cancel does not come from Sluice.
TEST_F(ConnectionTest, WhoIsHitByACancelForAnotherIsAskedAgainOnce) {
  const std::string cancelled = message('E', "SERROR\0VERROR\0C57014\0Mcanceling statement due to user request\0\0"s);
  for (const bool again : {false, true}) {
    LateCancelServer server(begin + row + done + begin + cancelled + ready,
                            again ? cancelled + ready : message('2', "") + row + done);
    Options options;
    options.addresses = {*core::Address::from_ip("127.0.0.1", server.port)};
    options.user = options.database = "u";
    options.pool_size = 1;
    options.wait_ms = 20'000;
    auto database = std::make_unique<Database>(*reactor, options);
    Statement statements[2];
    for (std::uint32_t i = 0; i < 2; ++i) {
      statements[i].id = {.slot = i, .serial = i + 1};
      statements[i].text = "SELECT";
      statements[i].columns = {{"a", builtin_type(23)}, {"b", builtin_type(25)}};
      statements[i].one_row = true;
    }
    const auto ask = [](Database& db, const Statement& s, std::optional<Result<std::size_t>>& into) -> Task<void> {
      auto cursor = co_await db.query(s, {}, {});
      if (!cursor) {
        into = std::unexpected(cursor.error());
        co_return;
      }
      auto block = co_await (*cursor)->next();
      if (block) into = block->rows;
    };
    std::optional<Result<std::size_t>> left;
    std::optional<Result<std::size_t>> stayed;
    core::TaskGroup leaving;
    core::TaskGroup staying;
    leaving.spawn(ask(*database, statements[0], left));
    staying.spawn(ask(*database, statements[1], stayed));
    const Instant end = reactor->now() + 20s;
    while (database->open_connections() == 0 && reactor->now() < end) reactor->turn(reactor->now() + 10ms);
    reactor->turn(reactor->now());
    leaving.cancel();
    while (!staying.empty() && reactor->now() < end) reactor->turn(reactor->now() + 10ms);
    ASSERT_TRUE(stayed);
    if (again) {
      ASSERT_FALSE(*stayed);
      EXPECT_EQ(stayed->error().sqlstate, "57014");
      EXPECT_EQ(stayed->error().failure, Failure::statement);
    } else {
      EXPECT_EQ(*stayed, 1u);
    }
    EXPECT_EQ(database->counters().cancel_hits, 1u);
    EXPECT_EQ(database->counters().opened, 1u);
    database.reset();
    reactor->turn(reactor->now());
    server.join();
    EXPECT_TRUE(server.was_cancelled);
    EXPECT_FALSE(server.was_asked_before_signal);
  }
}

// Three requests share one Sync.
TEST_F(ConnectionTest, ABatchIsUnderstoodAndNothingElse) {
  batch = 8;
  requests = 3;
  const std::string bound = message('2', "");
  const std::string complete = message('C', "SELECT 1\0"s);
  const std::string refused = message('E', "SERROR\0C22012\0Mno\0\0"s);
  const std::string first = begin + row + complete;
  const std::string next = bound + row + complete;
  EXPECT_EQ(ask({started, first + next + next + ready}, true), 1u);
  // The second request fails. The third is skipped and repeated alone, and again when the script repeats.
  const auto failed = ask({started, first + refused + ready, bound + row + complete + ready}, true);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().sqlstate, "22012");

  const std::vector<std::string> answers = {
      first + next + ready,                    // one of three has no answer
      first + complete + next + next + ready,  // one answer too many, without a Bind
      first + next + next + bound + row + complete + ready + ready,
      first + complete + ready,
      first + ready,
      ready,
      complete + complete + complete + ready,
      first + refused + refused + ready,                 // a skipped request cannot fail
      first + refused + bound + row + complete + ready,  // a skipped request cannot succeed
      first + next + next + message('Z', "T"),
      first + next + message('D', u16(1) + u32(1) + "7") + complete + ready,
      first,
  };
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const auto result = ask({started, answers[i]}, true);
    // Answers before the fault count. Only in this case have all three requests been answered before it.
    if (i == 9) {
      EXPECT_EQ(result, 1u) << i;
    } else {
      EXPECT_FALSE(result) << i;
    }
  }
}

TEST_F(ConnectionTest, AnswersThatDoNotComeTimeOut) {
  const auto silent = message('N', "SNOTICE\0C00000\0Mx\0\0"s);
  const auto shared = ask({started, silent}, true);
  ASSERT_FALSE(shared);
  const auto exclusive = ask({started, silent}, false);
  ASSERT_FALSE(exclusive);
  EXPECT_EQ(exclusive.error().failure, Failure::timed_out);
}

TEST_F(ConnectionTest, AStartThatGoesWrongMakesTheServerUnavailable) {
  const std::string scram = message('R', u32(10) + "SCRAM-SHA-256\0\0"s);
  const std::vector<std::vector<std::string>> scripts = {
      {""},
      {message('N', "SNOTICE\0C00000\0Mx\0\0"s)},  // nothing follows
      {"HTTP/1.1 400 Bad Request\r\n\r\n"},
      {message('E', "SFATAL\0C53300\0Mtoo many clients\0\0"s)},
      {message('E', "SFATAL")},
      {message('R', u32(3))},  // asks for the password in the clear
      {message('R', u32(7))},  // GSSAPI
      {message('R', u32(10) + "SCRAM-SHA-256-PLUS\0\0"s)},
      {message('R', u32(11) + "r=x,s=eA==,i=1")},  // in the wrong state
      {message('R', u32(12) + "v=eA==")},
      {scram, started},  // skips the end of SCRAM
      {scram, message('R', u32(11) + "r=wrong,s=eA==,i=4096")},
      {scram, scram},
      {"R" + u32(1 << 20)},
      {message('R', u32(0)) + message('Z', "?")},
  };
  for (std::size_t i = 0; i < scripts.size(); ++i) {
    const auto result = ask(scripts[i], true);
    ASSERT_FALSE(result) << i;
    EXPECT_EQ(result.error().failure, Failure::unavailable) << i;
    EXPECT_FALSE(result.error().message.empty()) << i;
    EXPECT_EQ(result.error().message.find("secret"), std::string::npos);
  }
}

}  // namespace
}  // namespace sluice::sql::postgres
