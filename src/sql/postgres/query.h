#pragma once

#include <array>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/reactor.h"
#include "core/task.h"
#include "sql/database.h"
#include "sql/postgres/connection.h"
#include "sql/postgres/exchange.h"
#include "sql/postgres/pool.h"
#include "sql/postgres/settings.h"

namespace sluice::sql::postgres {

// One statement, from the wait for a connection to the last row. As a Cursor, it returns the rows.
class Query final : public sql::Cursor, private Exchange, private Candidate, private ColumnLists::Waiter {
 public:
  using Use = Candidate::Use;
  enum class Stage : std::uint8_t {
    fresh,
    queued,      // waits for a connection
    placed,      // has one
    in_flight,   // shared: waits for its answer
    describing,  // waits until the columns' types have been looked up
    answered,    // shared: the rows have arrived
    failed,      // error() says why, unless the query will be retried
    finished,
  };

  // Copies the arguments. The statement must outlive the query.
  Query(Pool& pool, const Statement& statement, std::span<const Argument> arguments, const QueryOptions& options,
        Use use);
  // Creates a conversation.
  Query(Pool& pool, Instant deadline);
  // Creates a stream or a helper. advance() returns false while the statement's columns are being looked up.
  Query(Pool& pool, const Statement& statement, Instant deadline, Use use);
  Query(const Query&) = delete;
  ~Query() override;

  [[nodiscard]] core::Async<Result<Block>> next() override;

  // Gets a connection and the beginning of the answer: rows, the end, or an error.
  //   while (!query.advance()) co_await query.progress();
  struct Progress {
    Query& query;
    explicit Progress(Query& query) : query(query) {}
    Progress(const Progress&) = delete;
    ~Progress() { query.waiting_ = nullptr; }
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> caller) noexcept { query.waiting_ = caller; }
    void await_resume() const noexcept {}
  };
  [[nodiscard]] Progress progress() { return Progress(*this); }

  // Does what can be done now. Returns false if the caller must await progress() first. If true, rows can be taken or
  // error() is set.
  [[nodiscard]] bool advance();
  [[nodiscard]] bool failed() const { return stage_ == Stage::failed; }
  [[nodiscard]] Error& error() { return error_; }

  // In place of progress(), for a caller that waits for several queries: the first one that is ready wakes the caller.
  void wake_later(std::coroutine_handle<> caller) { waiting_ = caller; }

  // For a conversation before it has a connection: it executes one statement, which is its whole transaction. If the
  // connection that it gets can do so, advance() then returns true when it is committed, and written() has the result.
  // Otherwise it is a conversation as before. Copies the parameters, which are encoded as in Bind; the others last as
  // long as the query.
  void fly(const Statement& statement, std::string_view parameters, const Settings& settings);
  [[nodiscard]] bool has_flown() const { return stage_ == Stage::answered; }
  [[nodiscard]] Written written();

  // For a conversation, after advance() has obtained its connection.
  [[nodiscard]] Connection& connection() { return *connection_; }
  // Expects the answer to the messages that have been written to the connection, up to their Sync.
  void expect_answer() { connection_->expect_answer(*this); }
  [[nodiscard]] core::Task<Result<Message>> message();
  // The whole answer: calls take(message), which returns false if the message is malformed, for all messages but errors
  // and ReadyForQuery. The value is the server's first error; nullopt: there was none.
  template <class Take>
  [[nodiscard]] core::Task<Result<std::optional<ServerError>>> read_answer(Take take) {
    std::optional<ServerError> refused;
    for (;;) {
      auto received = co_await message();
      if (!received) co_return std::unexpected(std::move(received.error()));
      if (received->type == 'Z') co_return refused;
      if (received->type != 'E') {
        if (!take(*received)) co_return std::unexpected(malformed_message());
        continue;
      }
      const auto notice = parse_notice(received->payload);
      if (!notice) co_return std::unexpected(malformed_message());
      if (!refused) refused.emplace(*notice);
    }
  }
  // Applies to all waits from now on.
  void set_deadline(Instant deadline);
  // Converts the server's error to the caller's.
  [[nodiscard]] Error error_of(const ServerError& error) const;

 private:
  struct Deadline : core::Timer {
    Deadline(Callback fire, Query& owner) : Timer(fire), owner(owner) {}
    Query& owner;
  };
  struct Hook : core::TurnHook {
    Hook(Callback run, Query& owner) : TurnHook(run), owner(owner) {}
    Query& owner;
  };

  // For the pool.
  void place(Connection& connection) override;
  void queued() override;
  void refuse(Error why) override { set_failure(std::move(why)); }
  [[nodiscard]] bool can_write(const Connection& connection) const override;
  // For the connection.
  void readable() override { wake(); }
  void answer(const Block& rows, std::uint64_t changes) override;
  void keep() override;
  void refused(const ServerError& error) override;
  void unusable() override;
  void again(Again why, const ServerError* error) override;
  void lost(const Error& why, Instant opened) override;
  // For the lists of columns.
  void columns_known(const Result<void>& outcome) override;

  [[nodiscard]] Request request() const;
  void wake() override {
    if (waiting_) std::exchange(waiting_, nullptr).resume();
  }

  [[nodiscard]] bool is_conversation() const { return use_ != Use::shared && use_ != Use::exclusive; }
  // BEGIN READ ONLY and COMMIT surround the query. Otherwise its Sync ends the transaction: that of a write, or one of
  // a session that reads only.
  [[nodiscard]] bool has_transaction() const { return !is_write() && !settings_->empty() && !pool_.may_repeat(); }
  [[nodiscard]] bool is_write() const { return use_ == Use::write; }
  void fail_write(std::string_view why);
  [[nodiscard]] char* make_parameters(std::size_t size);
  void begin_wait(Instant now);  // for a connection
  void set_failure(Error error);
  [[nodiscard]] bool again_after_loss(Instant opened);
  [[nodiscard]] bool again_after_stale();
  void again_when_known();
  void start_over();
  [[nodiscard]] bool scan(bool first);
  void fail_by_piece();
  void wait_for_server();
  [[nodiscard]] Result<Block> take_piece();
  [[nodiscard]] core::Task<Result<Block>> next_slow();
  void leave_connection();
  static void on_deadline(core::Timer& timer) noexcept;
  static void on_turn_end(core::TurnHook& hook) noexcept;

  [[nodiscard]] std::string_view parameters() const {
    return {large_parameters_ ? large_parameters_.get() : parameters_.data(), parameters_size_};
  }

  Pool& pool_;
  const Statement* statement_ = nullptr;
  Stage stage_ = Stage::fresh;
  Instant first_loss_ = never;  // when it lost its first connection
  std::uint8_t described_ = 0;  // how often it has waited for its columns' types
  std::size_t reprepared_ = 0;  // how often its plan was stale
  // How another request has disturbed it. After that it is in no batch.
  enum class Disturbed : std::uint8_t { never, skipped, cancelled } disturbed_ = Disturbed::never;
  bool streaming_ = false;  // the caller has taken rows
  bool has_deadline_ = false;
  bool timed_out_ = false;
  bool piece_ready_ = false;
  Connection* connection_ = nullptr;
  std::coroutine_handle<> waiting_;

  Instant started_;
  Instant placed_at_{};
  Instant wait_until_{};    // for a connection
  Instant first_deadline_;  // for the beginning of the answer
  Duration patience_;       // for each later wait on the server
  Deadline timer_;
  Hook release_;

  const Settings own_settings_;
  const Settings* settings_ = &own_settings_;

  Block block_;
  std::uint64_t changes_ = 0;
  Connection::Piece piece_;
  std::size_t bytes_ = 0;
  std::size_t rows_ = 0;
  struct Kept {
    std::unique_ptr<char[]> bytes;
    std::vector<Field> fields;
  };
  Kept kept_;
  Error error_;

  std::size_t parameters_size_ = 0;
  std::unique_ptr<char[]> large_parameters_;
  std::array<char, 128> parameters_;
};

}  // namespace sluice::sql::postgres
