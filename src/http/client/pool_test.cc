#include "http/client/pool.h"

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/simulated_reactor.h"
#include "core/sleep.h"
#include "http/server.h"

namespace sluice::http::client {
namespace {

using core::Async;
using core::Task;

// Answers with the path.
class Echo final : public Handler {
 public:
  Async<Response> handle(Request& request) override {
    Response response;
    Buffer body;
    body.append(request.path);
    response.body = std::move(body);
    return response;
  }
};

class ClientPool : public testing::Test {
 protected:
  ClientPool() { start({}); }

  void start(ServerOptions options) {
    server_.emplace(reactor_, handler_, options);
    address_ = *server_->listen(*core::Address::parse("127.0.0.1:0"));
  }
  void make_pool(PoolOptions options = {}) {
    pool_.emplace(reactor_, mailbox_, nullptr, Origin{"127.0.0.1", address_.port()}, options);
  }
  Task<void> ask(std::string& answer, Duration pause, Pool::Which which) {
    auto lease = co_await pool_->take(which);
    if (!lease) {
      answer = "error " + lease.error().text();
      co_return;
    }
    const auto head = co_await (*lease)->ask({.target = "/a", .host = "a"}, nullptr);
    EXPECT_TRUE(head);
    Buffer body;
    while (head) {
      const auto progress = co_await (*lease)->read(body);
      EXPECT_TRUE(progress);
      if (!progress || *progress == BodySource::Progress::done) break;
    }
    answer = body.view();
    if (lease->was_used()) answer += " again";
    co_await core::Sleep(reactor_, reactor_.now() + pause);
  }
  std::string ask(Pool::Which which = Pool::Which::any) {
    std::string answer;
    tasks_.spawn(ask(answer, Duration{}, which));
    pass(50ms);
    return answer;
  }
  // So many at the same time.
  void ask_many(int count) {
    std::vector<std::string> answers(static_cast<std::size_t>(count));
    for (std::string& answer : answers) tasks_.spawn(ask(answer, 20ms, Pool::Which::any));
    pass(10ms);
    EXPECT_EQ(pool_->lent(), answers.size());
    pass(50ms);
    EXPECT_EQ(pool_->lent(), 0u);
  }
  void pass(Duration time) {
    const Instant until = reactor_.now() + time;
    while (reactor_.now() < until && !reactor_.deadlocked()) reactor_.turn(until);
  }

  core::SimulatedReactor reactor_{7};
  core::Mailbox mailbox_{reactor_};
  Echo handler_;
  std::optional<Server> server_;
  core::Address address_;
  std::optional<Pool> pool_;
  core::TaskGroup tasks_;
};

TEST_F(ClientPool, UsesAConnectionAgain) {
  make_pool();
  EXPECT_EQ(ask(), "/a");
  EXPECT_EQ(ask(), "/a again");
  EXPECT_EQ(ask(), "/a again");
  EXPECT_EQ(pool_->counters().opened, 1u);
  EXPECT_EQ(pool_->counters().reused, 2u);
  EXPECT_EQ(ask(Pool::Which::fresh), "/a");
  EXPECT_EQ(pool_->counters().opened, 2u);
  EXPECT_EQ(pool_->idle(), 2u);
}

TEST_F(ClientPool, KeepsNoMoreThanItMay) {
  make_pool({.idle = 3});
  ask_many(10);
  EXPECT_EQ(pool_->counters().opened, 10u);
  EXPECT_EQ(pool_->idle(), 3u);
  EXPECT_EQ(server_->counters().open, 3u);
  make_pool({.idle = 0});
  EXPECT_EQ(ask(), "/a");
  EXPECT_EQ(pool_->idle(), 0u);
}

TEST_F(ClientPool, KeepsThemNoLongerThanItMay) {
  make_pool({.idle_time = 10s, .age = 15s});
  EXPECT_EQ(ask(), "/a");
  pass(9s);
  EXPECT_EQ(ask(), "/a again");
  pass(4s);
  EXPECT_EQ(ask(), "/a again");
  pass(3s);
  EXPECT_EQ(pool_->idle(), 0u) << "it is too old";
  EXPECT_EQ(server_->counters().open, 0u);
  EXPECT_EQ(ask(), "/a");
  pass(11s);
  EXPECT_EQ(pool_->idle(), 0u) << "it has not been used for long";
}

TEST_F(ClientPool, NoticesThatTheServerHasClosed) {
  make_pool();
  ask_many(5);
  EXPECT_EQ(pool_->idle(), 5u);
  server_->drain();
  pass(50ms);
  EXPECT_EQ(pool_->idle(), 0u);
  EXPECT_TRUE(ask().starts_with("error "));
  EXPECT_EQ(pool_->counters().open_failures, 1u);
  EXPECT_EQ(pool_->lent(), 0u);
}

TEST_F(ClientPool, ANameLeadsNowhereWithoutAResolver) {
  pool_.emplace(reactor_, mailbox_, nullptr, Origin{"a.example", 80}, PoolOptions{});
  EXPECT_EQ(ask(), "error " + (Error{Errc::system, EHOSTUNREACH}).text());
}

// Who has gone keeps nothing.
TEST_F(ClientPool, ALeaseEndsWithWhoeverHasIt) {
  make_pool();
  std::string answer;
  tasks_.spawn(ask(answer, 1h, Pool::Which::any));
  pass(10ms);
  EXPECT_EQ(pool_->lent(), 1u);
  tasks_.cancel();
  EXPECT_EQ(pool_->lent(), 0u);
  EXPECT_EQ(pool_->idle(), 1u);
  std::string none;
  tasks_.spawn(ask(none, 1h, Pool::Which::fresh));
  tasks_.cancel();
  EXPECT_EQ(pool_->lent(), 0u);
}

}  // namespace
}  // namespace sluice::http::client
