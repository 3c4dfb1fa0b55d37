#pragma once

#include <coroutine>
#include <expected>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "core/blocking_pool.h"
#include "core/errands.h"
#include "core/mailbox.h"
#include "core/reactor.h"
#include "core/task.h"
#include "sql/rows.h"

namespace sluice::api::resident {

// Brings the blocks of an answer to whoever makes something of them, on threads of the pool, one piece after the other
// and each while the next is read. The loop copies what a block's views say, and gives way after each block: a table of
// any size holds up nobody else.
//
//   copied and not added yet:  two pieces, each up to piece_bytes and one block long
class RowFeed {
 public:
  static constexpr std::size_t piece_bytes = 1024 * 1024;  // to hand one over costs as much as some KiB of it
  // Runs on a thread, never twice at once. It owns what it adds to. Errors are sentences for the log.
  using Add = std::function<std::expected<void, std::string>(const sql::Block&)>;

  // All but `add` outlive it. Destroying it lets what a thread has begun come to its end.
  RowFeed(Add add, core::Reactor& reactor, core::Mailbox& mailbox, core::BlockingPool& threads)
      : add_(std::make_shared<Add>(std::move(add))), errands_(reactor), mailbox_(mailbox), threads_(threads) {}

  // A block, whose views are free afterwards; all have the same columns. An error is that of a block before.
  [[nodiscard]] core::Task<std::expected<void, std::string>> give(const sql::Block& block);
  // When all that was given has been added. Once, at the end.
  [[nodiscard]] core::Task<std::expected<void, std::string>> finish();

 private:
  // Rows with memory of their own.
  struct Piece {
    std::shared_ptr<const std::vector<sql::Column>> columns;
    std::vector<sql::Field> fields;
    std::vector<std::size_t> starts;  // of the fields in `bytes`, which moves while it grows
    Buffer bytes;
    std::size_t rows = 0;

    void take(const sql::Block& block);
    [[nodiscard]] sql::Block block();
  };
  struct Idle {
    RowFeed& feed;
    bool await_ready() const noexcept { return !feed.busy_; }
    void await_suspend(std::coroutine_handle<> caller) noexcept { feed.waiter_ = caller; }
    void await_resume() const noexcept {}
  };

  // Until nothing is being added.
  [[nodiscard]] core::Task<void> idle();
  void start();
  [[nodiscard]] core::Task<void> run(std::shared_ptr<Piece> piece);

  const std::shared_ptr<Add> add_;
  core::Errands errands_;
  core::Mailbox& mailbox_;
  core::BlockingPool& threads_;
  std::shared_ptr<const std::vector<sql::Column>> columns_;
  std::shared_ptr<Piece> next_;  // what is being filled
  bool busy_ = false;
  std::coroutine_handle<> waiter_;
  std::expected<void, std::string> result_;
  core::TaskGroup tasks_;
};

}  // namespace sluice::api::resident
