#include "app/log/request_log.h"

#include <coroutine>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/simulated_reactor.h"

namespace sluice::app {
namespace {

// A database whose statements end only when the test calls answer().
class SlowDatabase final : public sql::Database {
 public:
  core::Task<sql::Result<sql::Statement>> prepare(std::string_view, std::span<const sql::Parameter>) override {
    co_return sql::Statement{};
  }
  core::Task<sql::Result<sql::Statement>> prepare_writing(std::string_view, std::span<const sql::Parameter>) override {
    co_return sql::Statement{};
  }
  core::Async<sql::Result<std::unique_ptr<sql::Cursor>>> query(const sql::Statement&, std::span<const sql::Argument>,
                                                               const sql::QueryOptions&) override {
    return std::unexpected(sql::Error{});
  }
  std::unique_ptr<sql::Transaction> begin(const sql::TransactionOptions&) override {
    return std::make_unique<Slow>(*this);
  }
  std::unique_ptr<sql::Staging> stage(const sql::SetPlan&, const sql::TransactionOptions&) override { return nullptr; }
  core::Task<sql::Result<void>> ping(Instant) override { co_return sql::Result<void>{}; }

  void answer(std::optional<sql::Error> error = {}) {
    error_ = std::move(error);
    std::exchange(waiting_, nullptr).resume();
  }
  [[nodiscard]] bool runs() const { return static_cast<bool>(waiting_); }

  std::vector<std::string> written;  // the arguments of the statements
  int begun = 0;
  int ended = 0;  // transactions that were destroyed

 private:
  class Slow final : public sql::Transaction {
   public:
    explicit Slow(SlowDatabase& database) : database_(database) { ++database_.begun; }
    ~Slow() override {
      ++database_.ended;
      database_.waiting_ = nullptr;
    }
    core::Task<sql::Result<sql::Written>> execute(const sql::Statement&, std::span<const sql::Argument>) override {
      co_return sql::Written{};
    }
    core::Task<sql::Result<sql::Written>> finish(const sql::Statement&, std::span<const sql::Argument> arguments,
                                                 std::size_t) override {
      return run(std::string(*arguments[0].text));
    }
    core::Task<sql::Result<void>> commit() override { co_return sql::Result<void>{}; }

   private:
    struct Wait {
      SlowDatabase& database;
      bool await_ready() const noexcept { return false; }
      void await_suspend(std::coroutine_handle<> caller) noexcept { database.waiting_ = caller; }
      void await_resume() const noexcept {}
    };
    core::Task<sql::Result<sql::Written>> run(std::string rows) {
      database_.written.push_back(std::move(rows));
      co_await Wait{database_};
      if (database_.error_) co_return std::unexpected(*database_.error_);
      co_return sql::Written{};
    }
    SlowDatabase& database_;
  };

  std::coroutine_handle<> waiting_;
  std::optional<sql::Error> error_;
};

class RequestLogTest : public testing::Test {
 public:
  RequestLogTest() {
    plan.options.table.value = "requests";
    plan.options.every = 1s;
    plan.options.queue = 3;
    plan.items = {RequestLogPlan::Item::status};
  }
  void add(std::uint16_t status) {
    http::Completion completion{};
    completion.status = status;
    log->add(completion);
  }
  void pass(Duration time) {
    for (const Instant until = reactor.now() + time; reactor.now() < until;) reactor.turn(until);
  }

  RequestLogPlan plan;
  Redaction redaction;
  core::SimulatedReactor reactor{1};
  SlowDatabase database;
  std::unique_ptr<RequestLog> log =
      std::make_unique<RequestLog>(plan, redaction, std::span<const std::string>{}, database, reactor);
  core::TaskGroup tasks;
};

TEST_F(RequestLogTest, GathersAndKeepsWhatCannotBeWrittenNow) {
  tasks.spawn(log->run());
  add(200);
  add(201);
  EXPECT_EQ(database.begun, 0);
  pass(1s);
  ASSERT_TRUE(database.runs());
  EXPECT_EQ(database.written.back(), R"([{"status":200},{"status":201}])");
  add(202);
  add(203);  // one more than `queue`
  EXPECT_EQ(log->counters().dropped, 1u);
  database.answer(sql::Error{sql::Failure::unavailable, {}, "away", 0});
  EXPECT_FALSE(database.runs()) << "it is not asked again at once";
  pass(1s);
  ASSERT_TRUE(database.runs());
  EXPECT_EQ(database.written.back(), R"([{"status":200},{"status":201},{"status":202}])");
  database.answer();
  EXPECT_EQ(log->counters().written, 3u);
  add(204);
  pass(1s);
  database.answer(sql::Error{sql::Failure::statement, "23514", "refused", 0});
  EXPECT_EQ(log->counters().dropped, 2u) << "it would be refused again";
  pass(5s);
  EXPECT_EQ(database.begun, 3);
}

TEST_F(RequestLogTest, OnlyTheRowThatIsRefusedIsLost) {
  plan.options.queue = 10;
  tasks.spawn(log->run());
  for (const std::uint16_t status : {200, 201, 404, 202, 203}) add(status);
  pass(1s);
  std::vector<std::string> tried;
  while (database.runs()) {
    tried = database.written;
    const bool refused = tried.back().contains("404");
    if (tried.size() == 3) {
      database.answer(sql::Error{sql::Failure::lost, {}, "away", 0});
      pass(1s);
    }
    database.answer(refused ? std::optional(sql::Error{sql::Failure::bad_argument, "22P05", "refused", 0})
                            : std::nullopt);
  }
  EXPECT_EQ(log->counters().written, 4u);
  EXPECT_EQ(log->counters().dropped, 1u);
  EXPECT_TRUE(log->empty());
  const auto row = [](int status) { return "{\"status\":" + std::to_string(status) + "}"; };
  const std::vector<std::string> expected = {
      "[" + row(200) + "," + row(201) + "," + row(404) + "," + row(202) + "," + row(203) + "]",
      "[" + row(200) + "," + row(201) + "]",
      "[" + row(404) + "," + row(202) + "," + row(203) + "]",
      "[" + row(404) + "," + row(202) + "," + row(203) + "]",  // repeated after the connection was lost
      "[" + row(404) + "]",
      "[" + row(202) + "]",
      "[" + row(203) + "]"};
  EXPECT_EQ(tried, expected);

  for (const std::uint16_t status : {200, 404, 201}) add(status);
  pass(1s);
  database.answer(sql::Error{sql::Failure::statement, "42P01", "no such table", 0});
  EXPECT_EQ(log->counters().dropped, 4u) << "no row is to blame, so none is tried alone";
  EXPECT_FALSE(database.runs());
}

TEST_F(RequestLogTest, FlushWaitsForWhatIsOnItsWay) {
  tasks.spawn(log->run());
  add(200);
  pass(1s);
  ASSERT_TRUE(database.runs());
  add(201);
  bool flushed = false;
  tasks.spawn([](RequestLog& of, Instant deadline, bool& done) -> core::Task<void> {
    co_await of.flush(deadline);
    done = true;
  }(*log, reactor.now() + 10s, flushed));
  pass(100ms);
  EXPECT_EQ(database.begun, 1);
  database.answer();
  pass(100ms);
  ASSERT_TRUE(database.runs());
  EXPECT_EQ(database.written.back(), R"([{"status":201}])");
  database.answer();
  pass(100ms);
  EXPECT_TRUE(flushed);
  EXPECT_EQ(log->counters().written, 2u);
}

TEST_F(RequestLogTest, ItsEndWithinAStatementIsTold) {
  tasks.spawn(log->run());
  add(200);
  pass(1s);
  ASSERT_TRUE(database.runs());
  add(201);
  bool flushed = false;
  tasks.spawn([](RequestLog& of, Instant deadline, bool& done) -> core::Task<void> {
    co_await of.flush(deadline);
    done = true;
  }(*log, reactor.now() + 300ms, flushed));
  pass(1s);
  EXPECT_TRUE(flushed) << "it gives up at its deadline";
  EXPECT_TRUE(database.runs());
  // Destroyed in the same order as when a core ends: first the tasks, then the objects that they use.
  tasks.cancel();
  EXPECT_EQ(database.ended, 1);
  EXPECT_FALSE(database.runs());
  testing::internal::CaptureStderr();
  log.reset();
  EXPECT_TRUE(testing::internal::GetCapturedStderr().contains("2 rows were not written before the end"));
}

TEST_F(RequestLogTest, ItsEndWithinAFlushIsTold) {
  add(200);
  tasks.spawn(log->flush(reactor.now() + 10s));
  ASSERT_TRUE(database.runs());
  tasks.cancel();
  EXPECT_EQ(database.ended, 1);
  testing::internal::CaptureStderr();
  log.reset();
  EXPECT_TRUE(testing::internal::GetCapturedStderr().contains("1 row was not written before the end"));
}

}  // namespace
}  // namespace sluice::app
