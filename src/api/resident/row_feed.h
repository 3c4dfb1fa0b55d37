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

// Passes the blocks of an answer to a consumer on the pool's threads, one piece at a time, while the next piece is
// read. The loop copies the data of a block's views and yields after each block, so a large table does not delay other
// work.
//
//  copied and not yet added:  two pieces, each up to piece_bytes plus one block
class RowFeed {
 public:
  static constexpr std::size_t piece_bytes = 1024 * 1024;  // giving it to a thread costs as much as copying a few KiB
  // Runs on a thread, never concurrently. It owns the object that it adds to. Errors are sentences for the log.
  using Add = std::function<std::expected<void, std::string>(const sql::Block&)>;

  // All arguments except `add` outlive this. If this is destroyed, a running `add` still finishes.
  RowFeed(Add add, core::Reactor& reactor, core::Mailbox& mailbox, core::BlockingPool& threads)
      : add_(std::make_shared<Add>(std::move(add))), errands_(reactor), mailbox_(mailbox), threads_(threads) {}

  // Adds a block, whose views may be freed afterwards. All blocks have the same columns. Errors may be of earlier
  // blocks.
  [[nodiscard]] core::Task<std::expected<void, std::string>> give(const sql::Block& block);
  // Waits until all blocks have been added. Call it once, at the end.
  [[nodiscard]] core::Task<std::expected<void, std::string>> finish();

 private:
  struct Piece {
    std::shared_ptr<const std::vector<sql::Column>> columns;
    std::vector<sql::Field> fields;
    std::vector<std::size_t> starts;  // of the fields in `bytes`, which moves as it grows
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

  // Waits until no piece is being added.
  [[nodiscard]] core::Task<void> idle();
  void start();
  [[nodiscard]] core::Task<void> run(std::shared_ptr<Piece> piece);

  const std::shared_ptr<Add> add_;
  core::Errands errands_;
  core::Mailbox& mailbox_;
  core::BlockingPool& threads_;
  std::shared_ptr<const std::vector<sql::Column>> columns_;
  std::shared_ptr<Piece> next_;  // the piece that is being filled
  bool busy_ = false;
  std::coroutine_handle<> waiter_;
  std::expected<void, std::string> result_;
  core::TaskGroup tasks_;
};

}  // namespace sluice::api::resident
