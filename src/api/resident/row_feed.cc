#include "api/resident/row_feed.h"

#include <new>
#include <utility>

namespace sluice::api::resident {

void RowFeed::Piece::take(const sql::Block& block) {
  for (const sql::Field& field : block.fields) {
    starts.push_back(bytes.size());
    bytes.append(field.view());
    fields.push_back(field);
  }
  rows += block.rows;
}

sql::Block RowFeed::Piece::block() {
  static constexpr char nothing = 0;
  const char* const begin = bytes.empty() ? &nothing : bytes.data();
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (!fields[i].is_null()) fields[i].data = begin + starts[i];
  }
  return {.columns = *columns, .fields = fields, .rows = rows, .last = false};
}

core::Task<std::expected<void, std::string>> RowFeed::give(const sql::Block& block) {
  if (!columns_) {
    columns_ = std::make_shared<const std::vector<sql::Column>>(block.columns.begin(), block.columns.end());
  }
  if (!next_) next_ = std::make_shared<Piece>(Piece{.columns = columns_, .fields = {}, .starts = {}, .bytes = {}});
  next_->take(block);
  if (next_->bytes.size() >= piece_bytes) {
    co_await idle();
    if (result_) start();
  }
  co_await errands_.turn();
  co_return result_;
}

core::Task<std::expected<void, std::string>> RowFeed::finish() {
  co_await idle();
  if (result_ && next_) start();
  co_await idle();
  co_return std::move(result_);
}

core::Task<void> RowFeed::idle() {
  if (!busy_) co_return;
  co_await Idle{*this};
  // A task of the group has resumed this one. It must end before the feed can be destroyed.
  co_await errands_.turn();
}

void RowFeed::start() {
  busy_ = true;
  tasks_.spawn(run(std::exchange(next_, nullptr)));
}

core::Task<void> RowFeed::run(std::shared_ptr<Piece> piece) {
  auto work = [add = add_, piece]() -> std::expected<void, std::string> {
    try {
      return (*add)(piece->block());
    } catch (const std::bad_alloc&) {
      return std::unexpected("there is not enough memory");
    }
  };
  auto again = work;
  auto added = co_await threads_.run(mailbox_, std::move(work));
  if (added) {
    result_ = std::move(*added);
  } else if (added.error().code == Errc::limit) {
    result_ = again();  // the pool is full, so the piece is added here and briefly blocks the loop
  } else {
    result_ = std::unexpected("the server is ending");
  }
  busy_ = false;
  if (waiter_) std::exchange(waiter_, nullptr).resume();
}

}  // namespace sluice::api::resident
