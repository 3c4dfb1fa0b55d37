#include "api/resident/row_feed.h"

#include <atomic>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "api/resident/rows_for_tests.h"
#include "core/run_to_end.h"

namespace sluice::api::resident {
namespace {

using Outcome = std::expected<void, std::string>;

// The received rows as text.
struct Log {
  std::vector<std::string> rows;
  std::size_t pieces = 0;
  std::thread::id thread;
};

RowFeed::Add into(const std::shared_ptr<Log>& log) {
  return [log](const sql::Block& block) -> Outcome {
    ++log->pieces;
    log->thread = std::this_thread::get_id();
    for (std::size_t i = 0; i < block.rows; ++i) {
      std::string row;
      for (const sql::Field& field : block.row(i)) row += field.is_null() ? "NULL;" : std::string(field.view()) + ";";
      if (row == "bad;;") return std::unexpected("it is bad");
      log->rows.push_back(row);
    }
    return {};
  };
}

class RowFeedTest : public testing::Test {
 protected:
  // Gives the rows in blocks of `block_rows` rows.
  core::Task<Outcome> feed(RowFeed::Add add, const TestRows& rows, std::size_t block_rows) {
    RowFeed feed(std::move(add), *reactor_, mailbox_, threads_);
    for (std::size_t first = 0; first < rows.size(); first += block_rows) {
      if (auto given = co_await feed.give(rows.block(first, std::min(rows.size(), first + block_rows))); !given) {
        co_return given;
      }
    }
    co_return co_await feed.finish();
  }
  Outcome run(core::Task<Outcome> task) { return core::run_to_end(*reactor_, &mailbox_, std::move(task)); }

  const std::unique_ptr<core::Reactor> reactor_ = core::make_epoll_reactor();
  core::Mailbox mailbox_{*reactor_};
  core::BlockingPool threads_{2, 4};
  const std::vector<sql::Column> columns_ = {column_of("a", sql::Form::text), column_of("b", sql::Form::text)};
};

TEST_F(RowFeedTest, BringsAllRowsInOrder) {
  TestRows rows(columns_);
  std::vector<std::string> wanted;
  constexpr std::size_t each = RowFeed::piece_bytes >> 16;  // 3.8 pieces in total
  for (int i = 0; i < 1000; ++i) {
    const std::string text = std::to_string(i) + std::string(static_cast<std::size_t>(i % 500) * each, 'x');
    rows.row({text, i % 7 == 0 ? TestValue(nullptr) : TestValue("")});
    wanted.push_back(text + (i % 7 == 0 ? ";NULL;" : ";;"));
  }
  for (const std::size_t block_rows : {1, 7, 1000}) {
    const auto log = std::make_shared<Log>();
    ASSERT_TRUE(run(feed(into(log), rows, block_rows)));
    EXPECT_EQ(log->rows, wanted);
    EXPECT_NE(log->thread, std::this_thread::get_id());
    EXPECT_EQ(log->pieces, block_rows == 1000 ? 1U : 4U);
  }
  const auto log = std::make_shared<Log>();
  EXPECT_TRUE(run(feed(into(log), TestRows(columns_), 1)));
  EXPECT_EQ(log->pieces, 0u);
}

TEST_F(RowFeedTest, TellsOfAnError) {
  for (const bool at_the_end : {false, true}) {
    TestRows rows(columns_);
    if (!at_the_end) rows.row({"bad", ""});
    for (int i = 0; i < 100; ++i) rows.row({std::string(RowFeed::piece_bytes / 3, 'x'), ""});
    if (at_the_end) rows.row({"bad", ""});
    const auto log = std::make_shared<Log>();
    const Outcome outcome = run(feed(into(log), rows, 1));
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error(), "it is bad");
    if (!at_the_end) EXPECT_LE(log->pieces, 2u);
  }
  const auto too_much = [](const sql::Block&) -> Outcome { throw std::bad_alloc(); };
  TestRows rows(columns_);
  rows.row({"a", "b"});
  EXPECT_EQ(run(feed(too_much, rows, 1)).error(), "there is not enough memory");
}

// If the pool has no room, the loop's own thread does the work.
TEST_F(RowFeedTest, GoesOnWhereThereAreTooManyWorks) {
  std::atomic<bool> begun = false;
  std::atomic<bool> ends = false;
  core::BlockingPool none(1, 1);
  core::TaskGroup tasks;
  const auto block = [&]() -> core::Task<void> {
    auto work = [&] {
      begun = true;
      while (!ends) std::this_thread::yield();
    };
    (void)co_await none.run(mailbox_, std::move(work));
  };
  tasks.spawn(block());
  while (!begun) std::this_thread::yield();
  tasks.spawn(block());  // waits until the pool has room
  TestRows rows(columns_);
  for (int i = 0; i < 9; ++i) rows.row({std::string(RowFeed::piece_bytes / 3, 'x'), "y"});
  const auto log = std::make_shared<Log>();
  const auto give_all = [&]() -> core::Task<Outcome> {
    RowFeed feed(into(log), *reactor_, mailbox_, none);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (auto given = co_await feed.give(rows.block(i, i + 1)); !given) co_return given;
    }
    co_return co_await feed.finish();
  };
  EXPECT_TRUE(run(give_all()));
  EXPECT_EQ(log->rows.size(), 9u);
  EXPECT_EQ(log->thread, std::this_thread::get_id());
  ends = true;
}

// Work that a thread has begun owns all that it needs.
TEST_F(RowFeedTest, IsGivenUp) {
  const auto log = std::make_shared<Log>();
  {
    TestRows rows(columns_);
    for (int i = 0; i < 9; ++i) rows.row({std::string(RowFeed::piece_bytes / 2, 'x'), "y"});
    core::TaskGroup tasks;
    const auto run_it = [&]() -> core::Task<void> { (void)co_await feed(into(log), rows, 1); };
    tasks.spawn(run_it());
    for (int i = 0; i < 5; ++i) {
      mailbox_.deliver();
      reactor_->turn(reactor_->now());
    }
  }
  while (log.use_count() > 1) mailbox_.deliver();
  EXPECT_LE(log->pieces, 5u);
}

}  // namespace
}  // namespace sluice::api::resident
