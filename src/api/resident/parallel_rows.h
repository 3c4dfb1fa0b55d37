#pragma once

#include <atomic>
#include <coroutine>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "api/resident/row_writer.h"
#include "api/resident/selection.h"
#include "api/resident/table.h"
#include "base/buffer.h"
#include "core/mesh.h"
#include "core/task.h"
#include "http/response.h"

// Long answers of packed rows, encoded by several cores.
//
// The rows are cut into chunks, which are claimed in order by whoever is free: the core that answers, where the chunk
// that is to be sent next is nobody's or still another core's, and the cores that help it. It sends all in order. A
// chunk is up to piece_bytes long and a row; what it has no room for the answering core encodes. So much is kept at
// most:
//
//   of one answer:                        most_ahead_of_answer chunks that have not been sent
//   of one core and table, of all answers: most_ahead_of_core chunks; further answers are encoded where they are sent
//   at one other core, of this core and table: two answers are helped. It does one chunk of all that it was asked for
//   in
//                                          each turn of its loop
//
// A core that has not begun a chunk has not claimed it, so one that is busy holds up no other's answers. A client that
// takes nothing lets nobody encode more than that. The table's version is held until the last helper has left, also
// where the client has gone.
namespace sluice::api::resident {

inline constexpr std::size_t chunk_bytes = 48 * 1024;  // that a chunk's rows are expected to take
inline constexpr std::size_t piece_bytes = 64 * 1024;
inline constexpr std::size_t most_ahead_of_answer = 16;
inline constexpr std::size_t most_ahead_of_core = 128;

// One answer's rows, shared by the cores that encode them.
class RowsWork {
 public:
  RowsWork(std::shared_ptr<const Table> of, Selection rows, RowWriter::Wanted how);

  const std::shared_ptr<const Table> table;
  const Selection selection;
  const RowWriter::Wanted wanted;
  const std::uint64_t chunk_rows;

  [[nodiscard]] std::uint64_t first_of(std::uint64_t chunk) const { return chunk * chunk_rows; }
  [[nodiscard]] std::uint64_t last_of(std::uint64_t chunk) const;

  // Of all cores.

  // The first chunk that nobody has and that may be encoded already; the caller encodes it.
  [[nodiscard]] std::optional<std::uint64_t> claim();
  // Encodes a chunk that was claimed, and leaves it for the answering core. `elsewhere`: the caller is another one.
  void encode(std::uint64_t chunk, bool elsewhere);
  [[nodiscard]] bool is_awaited(std::uint64_t chunk) const { return awaited_.load() == chunk; }

  std::atomic<bool> abandoned{false};  // nobody waits for chunks any more
  std::atomic<unsigned> helpers{0};    // that were asked and have not left

  // Of the answering core.

  // Chunks below `end` may be claimed. `ahead`: how many of them may be encoded and not taken, the same in each call
  // but the first ones, where it may be 0: then one at a time, and never by encode().
  void open(std::uint64_t end, std::size_t ahead);
  // Of those below open()'s end.
  [[nodiscard]] std::uint64_t unclaimed() const;
  // Rows encoded, up to, not including, `next`.
  struct Piece {
    Buffer bytes;
    std::uint64_t next = 0;
    bool elsewhere = false;
  };
  // A chunk that somebody has left, until open() is called for more.
  [[nodiscard]] const Piece* find(std::uint64_t chunk) const;

  // co_await work.arrival(chunk): goes on when it may have been left.
  struct Arrival {
    RowsWork& work;
    std::uint64_t chunk;

    ~Arrival() { work.waiter_ = nullptr; }
    bool await_ready() const noexcept {
      work.awaited_.store(chunk);
      return work.find(chunk) != nullptr;
    }
    void await_suspend(std::coroutine_handle<> caller) const noexcept { work.waiter_ = caller; }
    void await_resume() const noexcept { work.awaited_.store(none, std::memory_order_relaxed); }
  };
  [[nodiscard]] Arrival arrival(std::uint64_t chunk) { return {*this, chunk}; }
  void wake() {
    if (waiter_) std::exchange(waiter_, nullptr).resume();
  }

 private:
  static constexpr std::uint64_t none = UINT64_MAX;
  struct Place {
    std::atomic<std::uint64_t> chunk{none};  // whose piece is whole
    Piece piece;
  };

  std::atomic<std::uint64_t> next_{0};  // the first chunk that nobody has claimed
  std::atomic<std::uint64_t> end_{0};
  std::unique_ptr<Place[]> places_;  // of a chunk, by its number modulo ahead_; published by end_
  std::size_t ahead_ = 0;
  std::atomic<std::uint64_t> awaited_{none};
  std::coroutine_handle<> waiter_;
};

// The other cores, as far as they encode rows of one table for this one.
class Helpers {
 public:
  // The mesh outlives it.
  explicit Helpers(core::MeshPort& mesh) : mesh_(mesh), busy_(mesh.size()) {}

  // Asks another core to help. False: the others have enough to do, or are ending. Who is asked changes each time.
  [[nodiscard]] bool ask(const std::shared_ptr<RowsWork>& work);
  [[nodiscard]] unsigned count() const { return mesh_.size() - 1; }
  // Of this core's errands.
  [[nodiscard]] core::Errands::Turn turn() { return mesh_.errands().turn(); }
  // For an answer: how many chunks it may keep, 0 where the others keep all. To be released.
  [[nodiscard]] std::size_t reserve();
  void release(std::size_t chunks) { ahead_ -= chunks; }
  // Chunks that are reserved for answers.
  [[nodiscard]] std::size_t ahead() const { return ahead_; }
  // Chunks that others have encoded and that were sent.
  void count_chunk() { ++chunks_; }
  [[nodiscard]] std::uint64_t chunks() const { return chunks_; }

 private:
  core::Task<void> help(unsigned core, std::shared_ptr<RowsWork> work);

  core::MeshPort& mesh_;
  std::vector<std::uint8_t> busy_;  // answers that each core helps
  unsigned next_ = 0;
  std::size_t ahead_ = 0;
  std::uint64_t chunks_ = 0;
  core::TaskGroup tasks_;  // which use all of the above
};

// The body of such an answer. Precondition: the table is packed.
class ParallelRows final : public http::BodySource {
 public:
  // `owner` is held as long as the body: what the answer's fields are views of.
  ParallelRows(std::shared_ptr<const void> owner, std::shared_ptr<Helpers> helpers, std::shared_ptr<RowsWork> work);
  ~ParallelRows() override;

  core::Async<Result<Progress>> pull(Buffer& out) override;
  [[nodiscard]] const void* owner() const override { return owner_.get(); }

  // Whether there is more in an answer than two chunks.
  [[nodiscard]] static bool worth(const Table& table, const Selection& selection, const RowWriter::Wanted& wanted);

 private:
  [[nodiscard]] bool open();
  [[nodiscard]] Progress begin(Buffer& out);
  [[nodiscard]] Progress encode(Buffer& out);
  [[nodiscard]] Progress take(const RowsWork::Piece& piece, Buffer& out);
  [[nodiscard]] core::Task<Result<Progress>> wait(bool turns, std::optional<std::uint64_t> claimed, Buffer& out);

  const std::shared_ptr<const void> owner_;
  const std::shared_ptr<Helpers> helpers_;
  const std::shared_ptr<RowsWork> work_;
  RowWriter writer_;
  std::size_t ahead_ = 0;    // chunks that are reserved
  std::uint64_t chunk_ = 0;  // that is sent next
  std::uint64_t row_ = 0;    // likewise
  std::uint64_t mine_ = 0;   // rows before this one are encoded here
  bool begun_ = false;
};

}  // namespace sluice::api::resident
