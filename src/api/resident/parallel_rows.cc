#include "api/resident/parallel_rows.h"

#include <algorithm>
#include <new>
#include <utility>

namespace sluice::api::resident {
namespace {

constexpr std::uint8_t most_at_one_core = 2;
constexpr std::uint64_t most_rows = 8192;  // of a chunk

std::uint64_t rows_of_chunk(const Table& table, const RowWriter::Wanted& wanted) {
  const std::uint64_t columns = table.columns().size();
  const std::uint64_t fields = wanted.fields.empty() ? columns : wanted.fields.size();
  const std::uint64_t row = table.json_bytes() / std::max<std::uint64_t>(table.size(), 1) * fields / columns;
  return std::clamp<std::uint64_t>(chunk_bytes / std::max<std::uint64_t>(row, 1), 1, most_rows);
}

struct Wake {
  std::shared_ptr<RowsWork> work;
  void operator()() const { work->wake(); }
};

// Counts as one of RowsWork::helpers until its destruction.
class Helping {
 public:
  explicit Helping(std::shared_ptr<RowsWork> work) : work_(std::move(work)) {
    work_->helpers.fetch_add(1, std::memory_order_relaxed);
  }
  Helping(Helping&&) = default;
  ~Helping() {
    if (work_) work_->helpers.fetch_sub(1, std::memory_order_relaxed);
  }
  RowsWork* operator->() const { return work_.get(); }
  [[nodiscard]] const std::shared_ptr<RowsWork>& work() const { return work_; }

 private:
  std::shared_ptr<RowsWork> work_;
};

// Runs on another core until there is nothing to claim.
struct EncodeThere {
  Helping helping;
  unsigned home;

  core::Task<void> operator()(core::MeshPort& here) {
    for (;;) {
      co_await here.errands().turn();
      if (helping->abandoned.load(std::memory_order_relaxed)) co_return;
      const auto chunk = helping->claim();
      if (!chunk) co_return;
      helping->encode(*chunk, true);
      // No deadline: each helper sends one Wake at a time, and without it the answer would not continue. The post fails
      // if that core is shutting down. No answer waits then.
      if (helping->is_awaited(*chunk)) (void)co_await here.post(home, never, Wake{helping.work()});
    }
  }
};

}  // namespace

RowsWork::RowsWork(std::shared_ptr<const Table> of, Selection rows, RowWriter::Wanted how)
    : table(std::move(of)),
      selection(std::move(rows)),
      wanted(std::move(how)),
      chunk_rows(rows_of_chunk(*table, wanted)) {}

std::uint64_t RowsWork::last_of(std::uint64_t chunk) const {
  return std::min<std::uint64_t>(first_of(chunk + 1), selection.size());
}

std::optional<std::uint64_t> RowsWork::claim() {
  std::uint64_t chunk = next_.load(std::memory_order_relaxed);
  do {
    if (chunk >= end_.load(std::memory_order_acquire)) return std::nullopt;
  } while (!next_.compare_exchange_weak(chunk, chunk + 1, std::memory_order_relaxed));
  return chunk;
}

void RowsWork::encode(std::uint64_t chunk, bool elsewhere) {
  Place& place = places_[chunk % ahead_];
  Piece& piece = place.piece;
  piece.bytes.clear();
  piece.next = first_of(chunk);
  piece.elsewhere = elsewhere;
  try {
    RowWriter writer(*table, wanted);
    if (piece.next != 0) writer.follow();
    for (const std::uint64_t last = last_of(chunk); piece.next < last && piece.bytes.size() < piece_bytes;
         ++piece.next) {
      writer.row(selection.at(piece.next), piece.bytes);
    }
  } catch (const std::bad_alloc&) {
    piece.bytes.clear();
    piece.next = first_of(chunk);  // the answering core continues from here
  }
  place.chunk.store(chunk);
}

void RowsWork::open(std::uint64_t end, std::size_t ahead) {
  if (ahead != 0 && !places_) {
    ahead_ = ahead;
    places_ = std::make_unique<Place[]>(ahead);
  }
  end_.store(end, std::memory_order_release);
}

std::uint64_t RowsWork::unclaimed() const {
  return end_.load(std::memory_order_relaxed) - next_.load(std::memory_order_relaxed);
}

const RowsWork::Piece* RowsWork::find(std::uint64_t chunk) const {
  if (!places_) return nullptr;
  const Place& place = places_[chunk % ahead_];
  return place.chunk.load() == chunk ? &place.piece : nullptr;
}

bool Helpers::ask(const std::shared_ptr<RowsWork>& work) {
  for (unsigned i = 0; i < mesh_.size(); ++i) {
    const unsigned core = next_;
    next_ = next_ + 1 == mesh_.size() ? 0 : next_ + 1;
    if (core == mesh_.core() || !mesh_.open(core) || busy_[core] == most_at_one_core) continue;
    ++busy_[core];
    tasks_.spawn(help(core, work));
    return true;
  }
  return false;
}

std::size_t Helpers::reserve() {
  // All or none, because one or two chunks would only be passed back and forth.
  const std::size_t chunks = ahead_ + most_ahead_of_answer <= most_ahead_of_core ? most_ahead_of_answer : 0;
  ahead_ += chunks;
  return chunks;
}

core::Task<void> Helpers::help(unsigned core, std::shared_ptr<RowsWork> work) {
  // The call has no deadline, because no answer waits for it: this core encodes chunks that the helper has not claimed.
  // The helper counts as busy until it drops the call. Otherwise calls could pile up there without bound.
  (void)co_await mesh_.call(core, never, EncodeThere{.helping = Helping(work), .home = mesh_.core()});
  --busy_[core];
  work->wake();  // the helper may have ended without sending Wake
}

ParallelRows::ParallelRows(std::shared_ptr<const void> owner, std::shared_ptr<Helpers> helpers,
                           std::shared_ptr<RowsWork> work)
    : owner_(std::move(owner)),
      helpers_(std::move(helpers)),
      work_(std::move(work)),
      writer_(*work_->table, work_->wanted) {}

ParallelRows::~ParallelRows() {
  work_->abandoned.store(true, std::memory_order_relaxed);
  helpers_->release(ahead_);
}

bool ParallelRows::worth(const Table& table, const Selection& selection, const RowWriter::Wanted& wanted) {
  return selection.size() > 2 * rows_of_chunk(table, wanted);
}

// Returns true if another core was asked. It gets the message at the end of the turn.
bool ParallelRows::open() {
  if (ahead_ == 0) ahead_ = helpers_->reserve();
  const std::uint64_t chunks = (work_->selection.size() + work_->chunk_rows - 1) / work_->chunk_rows;
  work_->open(std::min<std::uint64_t>(chunks, chunk_ + std::max<std::size_t>(ahead_, 1)), ahead_);
  // A helper that has finished is asked again only if there is enough to do.
  bool asked = false;
  if (ahead_ == 0 || work_->unclaimed() < ahead_ / 2) return asked;
  while (work_->helpers.load(std::memory_order_relaxed) < helpers_->count() && helpers_->ask(work_)) asked = true;
  return asked;
}

core::Async<Result<http::BodySource::Progress>> ParallelRows::pull(Buffer& out) {
  if (!std::exchange(begun_, true)) writer_.begin(out);
  if (row_ < mine_) return Result<Progress>(encode(out));
  // The message to another core is sent at the end of the turn.
  if (open()) return wait(true, std::nullopt, out);
  if (const RowsWork::Piece* const piece = work_->find(chunk_)) return Result<Progress>(take(*piece, out));
  const auto claimed = work_->claim();
  if (claimed == chunk_) return Result<Progress>(begin(out));
  return wait(false, claimed, out);
}

core::Task<Result<http::BodySource::Progress>> ParallelRows::wait(bool turns, std::optional<std::uint64_t> claimed,
                                                                  Buffer& out) {
  for (;;) {
    if (claimed) {
      // Encodes while the other core works. A claimed chunk must be encoded in any case.
      work_->encode(*claimed, false);
      turns = true;
    }
    if (turns) co_await helpers_->turn();
    if (const RowsWork::Piece* const piece = work_->find(chunk_)) co_return take(*piece, out);
    claimed = work_->claim();
    if (claimed == chunk_) co_return begin(out);
    turns = false;
    if (!claimed) co_await work_->arrival(chunk_);
  }
}

http::BodySource::Progress ParallelRows::take(const RowsWork::Piece& piece, Buffer& out) {
  if (piece.elsewhere) helpers_->count_chunk();
  out.append(piece.bytes.view());
  row_ = piece.next;
  mine_ = work_->last_of(chunk_);
  return row_ < mine_ && !piece.bytes.empty() ? Progress::more : encode(out);
}

// Begins to encode the chunk on this core.
http::BodySource::Progress ParallelRows::begin(Buffer& out) {
  mine_ = work_->last_of(chunk_);
  return encode(out);
}

// Encodes the rest of the chunk's rows, up to piece_bytes.
http::BodySource::Progress ParallelRows::encode(Buffer& out) {
  if (row_ != 0) writer_.follow();
  for (const std::size_t begin = out.size(); row_ < mine_ && out.size() < begin + piece_bytes; ++row_) {
    writer_.row(work_->selection.at(row_), out);
  }
  if (row_ == mine_) ++chunk_;
  if (row_ < work_->selection.size()) return Progress::more;
  writer_.end(out);
  return Progress::done;
}

}  // namespace sluice::api::resident
