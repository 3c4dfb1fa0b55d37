#include "api/resident/parallel_rows.h"

#include <algorithm>
#include <utility>

#include "core/core.h"

namespace sluice::api::resident {
namespace {

constexpr std::uint8_t most_at_one_core = 2;
constexpr std::uint64_t most_rows = 8192;  // of a chunk

Piece encode(const RowsWork& work, std::uint64_t first, std::uint64_t last) {
  RowWriter writer(*work.table, work.wanted);
  if (first != 0) writer.follow();
  Piece piece{.bytes = Buffer(chunk_bytes), .next = first};
  for (; piece.next < last && piece.bytes.size() < piece_bytes; ++piece.next) {
    writer.row(work.selection.at(piece.next), piece.bytes);
  }
  return piece;
}

// On another core.
struct EncodeThere {
  std::shared_ptr<const RowsWork> work;
  std::uint64_t first;
  std::uint64_t last;
  std::shared_ptr<std::atomic<bool>> taken;

  core::Task<Piece> operator()() {
    co_await core::Core::current()->errands().turn();
    if (work->abandoned.load(std::memory_order_relaxed) || taken->exchange(true)) co_return Piece{};
    co_return encode(*work, first, last);
  }
};

struct Arrival {
  explicit Arrival(Helpers::Chunk& chunk) : chunk(chunk) {}
  Arrival(const Arrival&) = delete;
  ~Arrival() { chunk.waiter = nullptr; }
  bool await_ready() const noexcept { return chunk.state != Helpers::Chunk::State::coming; }
  void await_suspend(std::coroutine_handle<> caller) noexcept { chunk.waiter = caller; }
  void await_resume() const noexcept {}

  Helpers::Chunk& chunk;
};

}  // namespace

std::shared_ptr<Helpers::Chunk> Helpers::give(const std::shared_ptr<const RowsWork>& work, std::uint64_t first,
                                              std::uint64_t last) {
  for (unsigned i = 0; i < mesh_.size(); ++i) {
    const unsigned core = next_;
    next_ = next_ + 1 == mesh_.size() ? 0 : next_ + 1;
    if (core == mesh_.core() || !mesh_.open(core) || busy_[core] == most_at_one_core) continue;
    auto chunk = std::make_shared<Chunk>();
    ++busy_[core];
    tasks_.spawn(fetch(core, work, first, last, chunk));
    return chunk;
  }
  return nullptr;
}

// It is not the answer's to cancel: until the chunk is back the other core is busy with it.
core::Task<void> Helpers::fetch(unsigned core, std::shared_ptr<const RowsWork> work, std::uint64_t first,
                                std::uint64_t last, std::shared_ptr<Chunk> chunk) {
  EncodeThere there{.work = std::move(work), .first = first, .last = last, .taken = chunk->taken};
  auto piece = co_await mesh_.call(core, std::move(there));
  --busy_[core];
  if (piece) {
    if (piece->next != 0) ++chunks_;
    chunk->piece = std::move(*piece);
  }
  chunk->state = piece ? Chunk::State::here : Chunk::State::refused;
  if (chunk->waiter) std::exchange(chunk->waiter, nullptr).resume();
}

ParallelRows::ParallelRows(std::shared_ptr<const void> owner, std::shared_ptr<Helpers> helpers,
                           std::shared_ptr<RowsWork> work)
    : owner_(std::move(owner)),
      helpers_(std::move(helpers)),
      work_(std::move(work)),
      writer_(*work_->table, work_->wanted),
      chunk_rows_(rows_of_chunk(*work_->table, work_->wanted)),
      window_(std::min<std::size_t>(std::size_t{helpers_->count()} * most_at_one_core + 1, most_ahead_of_answer)) {}

ParallelRows::~ParallelRows() {
  work_->abandoned.store(true, std::memory_order_relaxed);
  helpers_->drop_ahead(ahead_);
}

std::uint64_t ParallelRows::rows_of_chunk(const Table& table, const RowWriter::Wanted& wanted) {
  const std::uint64_t columns = table.columns().size();
  const std::uint64_t fields = wanted.fields.empty() ? columns : wanted.fields.size();
  const std::uint64_t row = table.json_bytes() / std::max<std::uint64_t>(table.size(), 1) * fields / columns;
  return std::clamp<std::uint64_t>(chunk_bytes / std::max<std::uint64_t>(row, 1), 1, most_rows);
}

bool ParallelRows::worth(const Table& table, const Selection& selection, const RowWriter::Wanted& wanted) {
  return selection.size() > 2 * rows_of_chunk(table, wanted);
}

bool ParallelRows::may_go_ahead() const {
  return next_ < work_->selection.size() && slots_.size() < window_ && helpers_->ahead() < most_ahead_of_core;
}

ParallelRows::Slot ParallelRows::next_slot() {
  Slot slot{.first = next_, .last = std::min(next_ + chunk_rows_, work_->selection.size()), .chunk = nullptr};
  next_ = slot.last;
  return slot;
}

void ParallelRows::give() {
  while (may_go_ahead()) {
    const std::uint64_t last = std::min(next_ + chunk_rows_, work_->selection.size());
    auto chunk = helpers_->give(work_, next_, last);
    if (!chunk) return;
    slots_.push_back(next_slot());
    slots_.back().chunk = std::move(chunk);
    ++ahead_;
    helpers_->keep_ahead();
  }
}

core::Async<Result<http::BodySource::Progress>> ParallelRows::pull(Buffer& out) {
  if (!std::exchange(begun_, true)) writer_.begin(out);
  // What is to be sent now is encoded now, and what comes after it meanwhile elsewhere.
  if (slots_.empty()) slots_.push_back(next_slot());
  give();
  if (const auto& head = slots_.front().chunk; head && head->state == Helpers::Chunk::State::coming) {
    // The time until it is there is not lost: the next chunk that nobody has is encoded here.
    if (may_go_ahead()) {
      Slot& slot = slots_.emplace_back(next_slot());
      slot.chunk = std::make_shared<Helpers::Chunk>();
      slot.chunk->piece = encode(*work_, slot.first, slot.last);
      slot.chunk->state = Helpers::Chunk::State::here;
      ++ahead_;
      helpers_->keep_ahead();
    }
    return wait(out);
  }
  return Result<Progress>(take(out));
}

core::Task<Result<http::BodySource::Progress>> ParallelRows::wait(Buffer& out) {
  // Held beside the slot: the body may go while somebody waits here.
  const std::shared_ptr<Helpers::Chunk> chunk = slots_.front().chunk;
  // A turn of the loop: other cores are woken at its end, and what they have sent arrives.
  co_await core::Core::current()->errands().turn();
  if (chunk->state == Helpers::Chunk::State::coming && !chunk->taken->exchange(true)) {
    forget(slots_.front());
  } else {
    co_await Arrival(*chunk);
  }
  co_return take(out);
}

// The rows of it that are left are encoded here, when they are asked for.
void ParallelRows::forget(Slot& slot) {
  slot.chunk.reset();
  --ahead_;
  helpers_->drop_ahead(1);
}

http::BodySource::Progress ParallelRows::take(Buffer& out) {
  Slot& head = slots_.front();
  const std::size_t begin = out.size();
  if (head.chunk) {
    if (head.chunk->state == Helpers::Chunk::State::here) {
      out.append(head.chunk->piece.bytes.view());
      head.first = head.chunk->piece.next;
    }
    forget(head);
  }
  if (head.first != 0) writer_.follow();
  if (out.size() == begin) {
    for (; head.first < head.last && out.size() < begin + piece_bytes; ++head.first) {
      writer_.row(work_->selection.at(head.first), out);
    }
  }
  if (head.first == head.last) slots_.pop_front();
  if (!slots_.empty() || next_ < work_->selection.size()) return Progress::more;
  writer_.end(out);
  return Progress::done;
}

}  // namespace sluice::api::resident
