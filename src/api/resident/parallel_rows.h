#pragma once

#include <atomic>
#include <coroutine>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "api/resident/row_writer.h"
#include "api/resident/selection.h"
#include "api/resident/table.h"
#include "base/buffer.h"
#include "core/mesh.h"
#include "core/task.h"
#include "http/message.h"

// Long answers of packed rows, encoded by several cores.
//
// The core that answers cuts the rows into chunks, and lets other cores encode some of them while it encodes others
// itself; it sends all in order. A chunk is up to piece_bytes long and a row; what it has no room for the answering
// core encodes. So much is kept at most:
//
//   of one answer, given away or encoded and not sent:  2 chunks for each other core and 1, and most_ahead_of_answer
//   of one core and table, of all answers:              most_ahead_of_core chunks; what is beyond is encoded when it is
//                                                       to be sent
//   at one other core, of this core and table:          2 chunks. It does one of all that it was asked for in each turn
//
// What has not been begun when it is to be sent is not waited for: a core that is busy holds up no other's answers.
// A client that takes nothing lets nobody encode more than that. The table's version is held until its last chunk is
// back, also where the client has gone.
namespace sluice::api::resident {

inline constexpr std::size_t chunk_bytes = 48 * 1024;  // that a chunk's rows are expected to take
inline constexpr std::size_t piece_bytes = 64 * 1024;
inline constexpr std::size_t most_ahead_of_answer = 16;
inline constexpr std::size_t most_ahead_of_core = 128;

// One answer's rows. Immutable but for one word; shared by the cores that encode it.
struct RowsWork {
  RowsWork(std::shared_ptr<const Table> of, Selection rows, RowWriter::Wanted how)
      : table(std::move(of)), selection(std::move(rows)), wanted(std::move(how)) {}

  const std::shared_ptr<const Table> table;
  const Selection selection;
  const RowWriter::Wanted wanted;
  mutable std::atomic<bool> abandoned{false};  // nobody waits for chunks any more
};

// Rows encoded, up to, not including, `next`.
struct Piece {
  Buffer bytes;
  std::uint64_t next = 0;
};

// The other cores, as far as they encode rows of one table for this one.
class Helpers {
 public:
  // The mesh outlives it.
  explicit Helpers(core::MeshPort& mesh) : mesh_(mesh), busy_(mesh.size()) {}

  struct Chunk {
    enum class State : std::uint8_t { coming, here, refused } state = State::coming;
    Piece piece;
    std::coroutine_handle<> waiter;
    // Who sets it encodes the chunk: the other core when it comes to it, or this one when it is to be sent before.
    std::shared_ptr<std::atomic<bool>> taken = std::make_shared<std::atomic<bool>>(false);
  };
  // Null: the others have enough to do, or are ending. Which of them has the chunk next changes each time.
  [[nodiscard]] std::shared_ptr<Chunk> give(const std::shared_ptr<const RowsWork>& work, std::uint64_t first,
                                            std::uint64_t last);
  [[nodiscard]] unsigned count() const { return mesh_.size() - 1; }
  // Chunks that are kept for answers.
  [[nodiscard]] std::size_t ahead() const { return ahead_; }
  void keep_ahead() { ++ahead_; }
  void drop_ahead(std::size_t count) { ahead_ -= count; }
  // Chunks that others have encoded.
  [[nodiscard]] std::uint64_t chunks() const { return chunks_; }

 private:
  core::Task<void> fetch(unsigned core, std::shared_ptr<const RowsWork> work, std::uint64_t first, std::uint64_t last,
                         std::shared_ptr<Chunk> chunk);

  core::MeshPort& mesh_;
  std::vector<std::uint8_t> busy_;  // chunks that each core has not brought back
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

  // Whether there is more in an answer than two chunks.
  [[nodiscard]] static bool worth(const Table& table, const Selection& selection, const RowWriter::Wanted& wanted);

 private:
  // Rows that are being encoded or are encoded elsewhere, or here ahead of time; without a chunk, those that are
  // encoded when it is their turn.
  struct Slot {
    std::uint64_t first = 0;
    std::uint64_t last = 0;
    std::shared_ptr<Helpers::Chunk> chunk;
  };

  [[nodiscard]] static std::uint64_t rows_of_chunk(const Table& table, const RowWriter::Wanted& wanted);
  [[nodiscard]] bool may_go_ahead() const;
  [[nodiscard]] Slot next_slot();
  void give();
  void forget(Slot& slot);
  [[nodiscard]] Progress take(Buffer& out);
  [[nodiscard]] core::Task<Result<Progress>> wait(Buffer& out);

  const std::shared_ptr<const void> owner_;
  const std::shared_ptr<Helpers> helpers_;
  const std::shared_ptr<const RowsWork> work_;
  RowWriter writer_;
  const std::uint64_t chunk_rows_;
  const std::size_t window_;
  std::deque<Slot> slots_;  // in order
  std::size_t ahead_ = 0;   // of them, with a chunk
  std::uint64_t next_ = 0;  // the first row of no slot
  bool begun_ = false;
};

}  // namespace sluice::api::resident
