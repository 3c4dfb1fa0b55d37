#pragma once

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "sql/database.h"
#include "sql/postgres/block_ranges.h"
#include "sql/postgres/query.h"
#include "sql/postgres/settings.h"
#include "sql/postgres/step.h"

namespace sluice::sql::postgres {

// State that the connections of one parallel answer share; it outlives them.
struct ParallelRequest {
  ParallelRequest(const Options& options, const Statement& wanted, std::span<const Argument> given,
                  std::span<const Setting> of_request);

  const Statement& statement;
  const Parallel& parallel;
  const Settings settings;  // the request's settings, and those that fix the plan of each range
  std::vector<std::optional<std::string>> arguments;

  // Encoded as in Bind.
  [[nodiscard]] std::string_view parameters(std::string_view from, std::string_view to);

 private:
  std::string parameters_;
};

// One connection that reads ranges of a table. It runs its own transaction under a snapshot that the leader, the first
// connection, has taken and the helpers share. It never suspends: advance() does what can be done, and wake_later()
// sets the coroutine to resume.
//
// The transaction begins with the statement for an empty range. This takes the table's lock, so that the table cannot
// be rewritten (which would move its rows) while ranges remain to be read; it returns the columns; and it fails early
// if the statement always fails.
//
//   requested ranges, being read or read ahead: [ front ... back ], at most most_asked
class RangeReader {
 public:
  enum class State : std::uint8_t {
    starting,
    reading,
    again,   // the statement's plan was stale, or its columns are being looked up: a new reader may succeed
    lost,    // a failure: the connection broke, or none was available
    failed,  // error() says why
  };
  enum class Got : std::uint8_t {
    rows,
    range_end,
    nothing,  // no rows have arrived yet
    failed,
  };
  struct Share {
    std::string snapshot;  // empty: helpers are not possible
    std::uint64_t blocks = 0;
  };

  // `snapshot`: the leader's, if this is a helper.
  RangeReader(Pool& pool, ParallelRequest& request, std::optional<std::string_view> snapshot, Instant deadline);
  RangeReader(const RangeReader&) = delete;

  // Call it until the reader is reading or has failed.
  void advance();
  [[nodiscard]] State state() const { return state_; }
  [[nodiscard]] bool has_begun() const { return begun_; }  // it has its connection
  [[nodiscard]] Error& error() { return error_; }
  void wake_later(std::coroutine_handle<> caller) { conversation_.wake_later(caller); }

  // Valid in State::reading: the leader's snapshot for its helpers, and the size of the table.
  [[nodiscard]] const Share& share() const { return share_; }
  [[nodiscard]] std::span<const Column> columns() const { return columns_; }
  [[nodiscard]] bool may_ask() const { return state_ == State::reading && asked_ < most_asked; }
  // Whether no requested range is still being read.
  [[nodiscard]] bool is_idle() const { return asked_ == 0; }
  void ask(const BlockRanges::Range& range);
  // Receives up to read_ahead_bytes while the caller reads from other readers.
  void read_ahead();
  // Takes rows of the first requested range. They last until the next call of any function.
  [[nodiscard]] Got take(Block& block);

 private:
  static constexpr std::size_t most_asked = 2;  // the server gets the next range before it has finished the first
  static constexpr std::size_t read_ahead_bytes = 2 << 20;

  void begin();
  void handle_start(const Message& message);
  void take_share(std::string_view row);
  void handle(const Message& message, Got& got);
  void handle_error(const Message& message);
  void describe(const Message& message);
  void fail(State state, Error error);
  void fail_with_connection();
  [[nodiscard]] std::uint16_t parameter_count() const { return static_cast<std::uint16_t>(request_.arguments.size()); }

  ParallelRequest& request_;
  std::optional<std::string> snapshot_;
  Query conversation_;
  State state_ = State::starting;
  bool begun_ = false;
  std::optional<Step> step_;  // since it has begun
  std::size_t asked_ = 0;     // ranges
  Share share_;
  bool shared_ = false;  // the server has sent share_
  std::span<const Column> columns_;
  Connection::Piece piece_;
  std::optional<Error> refused_;  // the server's error; its ReadyForQuery is still to come
  Error error_;
};

}  // namespace sluice::sql::postgres
