#pragma once

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/reactor.h"
#include "core/task.h"
#include "sql/database.h"
#include "sql/postgres/block_ranges.h"
#include "sql/postgres/range_reader.h"

namespace sluice::sql::postgres {

class Pool;

// The rows of a statement that several connections read, range by range, under one snapshot.
//
// The first connection, the leader, is acquired like that of any other request; it takes the snapshot and reads. The
// other connections, the helpers, join only while no other request waits for a connection, and leave at the end of a
// range when one does. So competing requests cannot deadlock, and with a single connection the query still completes,
// only slower. The leader stays to the end because it holds the table's lock.
//
// Ordered: rows come in the order of the ranges; a reader whose range comes later receives up to a bound, and then
// waits. Not ordered: rows come from any reader that has some.
class ParallelCursor final : public sql::Cursor {
 public:
  ParallelCursor(Pool& pool, const Statement& statement, std::span<const Argument> arguments,
                 const QueryOptions& options);
  ParallelCursor(const ParallelCursor&) = delete;
  ~ParallelCursor() override;

  // Completes when the leader reads.
  [[nodiscard]] core::Task<Result<void>> start();
  [[nodiscard]] core::Async<Result<Block>> next() override;

 private:
  struct Progress {
    ParallelCursor& cursor;
    explicit Progress(ParallelCursor& owner) : cursor(owner) {}
    Progress(const Progress&) = delete;
    ~Progress() { cursor.wake_later({}); }
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> caller) noexcept { cursor.wake_later(caller); }
    void await_resume() const noexcept { cursor.wake_later({}); }
  };
  struct Deadline : core::Timer {
    Deadline(Callback fire, ParallelCursor& owner) : Timer(fire), owner(owner) {}
    ParallelCursor& owner;
  };

  void wake_later(std::coroutine_handle<> caller);
  void begin_leader();
  [[nodiscard]] bool start_again();
  void hire();
  void ask(RangeReader& reader);
  void drive();
  // Returns nullopt if no rows have arrived yet.
  [[nodiscard]] std::optional<Result<Block>> take();
  [[nodiscard]] std::optional<Result<Block>> take_in_order();
  [[nodiscard]] std::optional<Result<Block>> take_any();
  [[nodiscard]] Result<Block> failed(RangeReader& reader);
  [[nodiscard]] core::Task<Result<Block>> wait_for_rows();
  static void on_deadline(core::Timer& timer) noexcept;

  Pool& pool_;
  ParallelRequest request_;
  Instant deadline_;   // for the first rows
  Duration patience_;  // for each later wait on the server
  Deadline timer_;
  bool timed_out_ = false;
  std::coroutine_handle<> waiting_;
  std::size_t starts_ = 0;
  bool retried_ = false;

  BlockRanges ranges_;
  std::vector<std::unique_ptr<RangeReader>> readers_;  // the leader is first, and is destroyed last
  // Ordered: the readers in the order of their ranges. A reader appears once for each range requested from it.
  std::deque<RangeReader*> turns_;
  std::size_t turn_ = 0;  // not ordered: the reader to look at first
};

}  // namespace sluice::sql::postgres
