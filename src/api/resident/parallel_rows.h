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

// Encodes long answers of packed rows on several cores.
//
// The rows are cut into chunks, which cores claim in order. Helping cores claim chunks whenever they are free. The
// answering core sends all chunks in order, and claims one itself if the chunk to be sent next is not ready. A chunk's
// encoded rows take up to piece_bytes plus one row. The answering core encodes the rows that do not fit. The limits
// are:
//
//  one answer:                             most_ahead_of_answer encoded chunks that have not been sent
//  all answers of one core and table:      most_ahead_of_core chunks; further answers use only the answering core
//  one helping core, per core and table:   it helps two answers, and encodes one chunk of all its
//                                          work in each turn of its loop
//
// A helper claims a chunk only when it begins to encode it, so a busy core does not delay the answers of others. If a
// client stops reading, no more than these chunks are encoded. The table's version is kept until the last helper has
// finished, even if the client has disconnected.
namespace sluice::api::resident {

inline constexpr std::size_t chunk_bytes = 48 * 1024;  // expected size of a chunk's rows
inline constexpr std::size_t piece_bytes = 64 * 1024;
inline constexpr std::size_t most_ahead_of_answer = 16;
inline constexpr std::size_t most_ahead_of_core = 128;

// The rows of one answer, shared by the cores that encode them.
class RowsWork {
 public:
  RowsWork(std::shared_ptr<const Table> of, Selection rows, RowWriter::Wanted how);

  const std::shared_ptr<const Table> table;
  const Selection selection;
  const RowWriter::Wanted wanted;
  const std::uint64_t chunk_rows;

  [[nodiscard]] std::uint64_t first_of(std::uint64_t chunk) const { return chunk * chunk_rows; }
  [[nodiscard]] std::uint64_t last_of(std::uint64_t chunk) const;

  // For all cores.

  // Claims the first unclaimed chunk below the end that open() set. The caller must encode it.
  [[nodiscard]] std::optional<std::uint64_t> claim();
  // Encodes a claimed chunk for the answering core. `elsewhere`: the caller is another core.
  void encode(std::uint64_t chunk, bool elsewhere);
  [[nodiscard]] bool is_awaited(std::uint64_t chunk) const { return awaited_.load() == chunk; }

  std::atomic<bool> abandoned{false};  // no more chunks are needed
  std::atomic<unsigned> helpers{0};    // cores that have been asked and have not finished

  // Only for the answering core.

  // Allows cores to claim chunks below `end`. `ahead` is the number of chunks that may be encoded but not yet taken. It
  // is 0 in the first calls if there is no room: the answering core then encodes one chunk at a time without encode().
  // Once it is positive, it stays the same.
  void open(std::uint64_t end, std::size_t ahead);
  // Chunks below the end that open() set.
  [[nodiscard]] std::uint64_t unclaimed() const;
  // Encoded rows before `next`.
  struct Piece {
    Buffer bytes;
    std::uint64_t next = 0;
    bool elsewhere = false;
  };
  // Returns a chunk that has been encoded, or null. It is valid until the next open().
  [[nodiscard]] const Piece* find(std::uint64_t chunk) const;

  // co_await work.arrival(chunk) resumes when the chunk may have been encoded.
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
    std::atomic<std::uint64_t> chunk{none};  // the number of the chunk whose piece is complete
    Piece piece;
  };

  std::atomic<std::uint64_t> next_{0};  // the first unclaimed chunk
  std::atomic<std::uint64_t> end_{0};
  std::unique_ptr<Place[]> places_;  // indexed by the chunk's number modulo ahead_; published by end_
  std::size_t ahead_ = 0;
  std::atomic<std::uint64_t> awaited_{none};
  std::coroutine_handle<> waiter_;
};

// The other cores as helpers for one table of this core.
class Helpers {
 public:
  // The mesh outlives it.
  explicit Helpers(core::MeshPort& mesh) : mesh_(mesh), busy_(mesh.size()) {}

  // Asks another core to help, a different one each time. Returns false if all others are busy or shutting down.
  [[nodiscard]] bool ask(const std::shared_ptr<RowsWork>& work);
  [[nodiscard]] unsigned count() const { return mesh_.size() - 1; }
  // Await it to continue in a later turn of the loop (see core::Errands).
  [[nodiscard]] core::Errands::Turn turn() { return mesh_.errands().turn(); }
  // Reserves chunks for one answer. Returns how many it may keep, or 0 if none are left. Call release() for them later.
  [[nodiscard]] std::size_t reserve();
  void release(std::size_t chunks) { ahead_ -= chunks; }
  // Chunks reserved for answers.
  [[nodiscard]] std::size_t ahead() const { return ahead_; }
  // Chunks that other cores have encoded and this core has sent.
  void count_chunk() { ++chunks_; }
  [[nodiscard]] std::uint64_t chunks() const { return chunks_; }

 private:
  core::Task<void> help(unsigned core, std::shared_ptr<RowsWork> work);

  core::MeshPort& mesh_;
  std::vector<std::uint8_t> busy_;  // how many answers each core is helping
  unsigned next_ = 0;
  std::size_t ahead_ = 0;
  std::uint64_t chunks_ = 0;
  core::TaskGroup tasks_;  // the tasks use all members above
};

// The body of a long answer. Precondition: the table is packed.
class ParallelRows final : public http::BodySource {
 public:
  // `owner` owns the memory that the answer's fields point into. The body keeps it alive.
  ParallelRows(std::shared_ptr<const void> owner, std::shared_ptr<Helpers> helpers, std::shared_ptr<RowsWork> work);
  ~ParallelRows() override;

  core::Async<Result<Progress>> pull(Buffer& out) override;
  [[nodiscard]] const void* owner() const override { return owner_.get(); }

  // Whether an answer has more than two chunks.
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
  std::size_t ahead_ = 0;    // reserved chunks
  std::uint64_t chunk_ = 0;  // the chunk to be sent next
  std::uint64_t row_ = 0;    // the row to be sent next
  std::uint64_t mine_ = 0;   // rows before this one are encoded on this core
  bool begun_ = false;
};

}  // namespace sluice::api::resident
