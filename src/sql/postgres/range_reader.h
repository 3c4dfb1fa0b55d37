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

namespace sluice::sql::postgres {

// What the connections of one parallel answer have in common. Outlives them.
struct ParallelRequest {
  ParallelRequest(const Statement& wanted, std::span<const Argument> given, std::span<const Setting> of_request);

  const Statement& statement;
  const Parallel& parallel;
  const Settings settings;  // the request's own, and those that keep each range's plan what it should be
  std::vector<std::optional<std::string>> arguments;

  // As Bind has them.
  [[nodiscard]] std::string_view parameters(std::string_view from, std::string_view to);

 private:
  std::string parameters_;
};

// One connection that reads ranges of a table: a transaction of its own under a snapshot that the first of them, the
// leader, has taken and the others, its helpers, share. It does not suspend: advance() does what can be done, and
// wake_later() says who is to come back.
//
// The transaction begins with the statement for an empty range. That takes the table's lock, so that nobody rewrites
// the table (and moves its rows) while ranges are still to be read; it finds out what the columns are; and it fails
// where the statement fails at once.
//
//   asked ranges = begun to be read, or read ahead: [ front ... back ], at most most_asked
class RangeReader {
 public:
  enum class State : std::uint8_t {
    starting,
    reading,
    again,   // the statement's plan was stale, or its columns are being looked up: a new one may do better
    lost,    // as failed: the connection broke, or none could be had
    failed,  // error() says why
  };
  enum class Got : std::uint8_t {
    rows,
    range_end,
    nothing,  // yet
    failed,
  };
  struct Share {
    std::string snapshot;  // empty: there can be no helpers
    std::uint64_t blocks = 0;
  };

  // `snapshot`: of the leader, where this is a helper.
  RangeReader(Pool& pool, ParallelRequest& request, std::optional<std::string_view> snapshot, Instant deadline);
  RangeReader(const RangeReader&) = delete;

  // Until it is reading, or has failed.
  void advance();
  [[nodiscard]] State state() const { return state_; }
  [[nodiscard]] bool has_begun() const { return begun_; }  // it has its connection
  [[nodiscard]] Error& error() { return error_; }
  void wake_later(std::coroutine_handle<> caller) { conversation_.wake_later(caller); }

  // While reading.

  // The leader's: what its helpers need to know, and how large the table is.
  [[nodiscard]] const Share& share() const { return share_; }
  [[nodiscard]] std::span<const Column> columns() const { return columns_; }
  [[nodiscard]] bool may_ask() const { return state_ == State::reading && asked_ < most_asked; }
  // Nothing that it was asked for is still to come, or lost.
  [[nodiscard]] bool is_idle() const { return asked_ == 0; }
  void ask(const BlockRanges::Range& range);
  // Receives while others are read from: as much as read_ahead_bytes.
  void read_ahead();
  // Of the foremost range. Rows last until the next call of any function.
  [[nodiscard]] Got take(Block& block);

 private:
  static constexpr std::size_t most_asked = 2;  // so that the server has the next one when it is done with the first
  static constexpr std::size_t read_ahead_bytes = 2 << 20;

  void begin();
  void handle_start(const Message& message);
  void take_share(std::string_view row);
  void handle(const Message& message, Got& got);
  void handle_error(const Message& message, std::size_t statement_at);
  void describe(const Message& message);
  void fail(State state, Error error);
  void fail_with_connection();
  void send(std::string_view from, std::string_view to);

  ParallelRequest& request_;
  std::optional<std::string> snapshot_;
  Query conversation_;
  State state_ = State::starting;
  bool begun_ = false;
  bool described_ = true;  // the columns of what has been sent are known
  std::size_t ended_ = 0;  // commands of the beginning
  std::size_t asked_ = 0;  // ranges
  Share share_;
  bool shared_ = false;  // the server has said it
  std::span<const Column> columns_;
  Connection::Piece piece_;
  std::optional<Error> refused_;  // by the server, which has still to say that it is ready
  bool stale_ = false;
  Error error_;
};

}  // namespace sluice::sql::postgres
