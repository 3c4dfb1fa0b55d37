#pragma once

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "core/reactor.h"
#include "core/task.h"
#include "net/stream.h"
#include "sql/database.h"
#include "sql/postgres/column_lists.h"
#include "sql/postgres/gathering.h"
#include "sql/postgres/inbox.h"
#include "sql/postgres/messages.h"
#include "sql/postgres/server_error.h"

namespace sluice::sql::postgres {

class Pool;
class Query;

// One connection to the server, and what is in flight on it. It lives as long as its pool and is opened again and
// again.
//
// Requests are answered in the order in which they were sent, each up to its own ReadyForQuery, or, where
// Options::batch lets look-ups share a Sync, up to its CommandComplete; those that the server skips because one before
// them in the batch has failed are sent again, alone. The connection is used in one of two ways at a time:
//   shared: many requests in flight; the connection reads by itself, keeps the answer of the foremost in its inbox,
//           and hands it over when it is whole;
//   leased: one request has it for itself and reads when it wants more, so that a slow client stops the server.
class Connection {
 public:
  enum class State : std::uint8_t { off, opening, ready, broken };
  // Decides the session's statement_timeout: the server's for shared requests, none for streams, whose clients may be
  // slow.
  enum class Role : std::uint8_t { shared, exclusive };

  // Where the client and the server count the same time, the server's word comes first by so much.
  static constexpr Duration grace = std::chrono::seconds(1);
  // An answer over one of these is not kept but asked for again on a connection of its own.
  static constexpr std::size_t shared_bytes = 1 << 20;
  static constexpr std::uint32_t shared_rows = 1000;
  static constexpr std::size_t longest_message = 1 << 20;  // but for rows

  Connection(Pool& pool, std::size_t index);
  Connection(const Connection&) = delete;
  ~Connection();

  // One life: opens the connection, serves until it ends, closes it, and tells the pool how it went.
  [[nodiscard]] core::Task<void> run(Role role);

  [[nodiscard]] State state() const { return state_; }
  [[nodiscard]] Role role() const { return role_; }
  [[nodiscard]] bool encrypted() const { return stream_.tls() != nullptr; }
  [[nodiscard]] bool leased() const { return leased_ != nullptr; }
  [[nodiscard]] std::size_t in_flight() const { return flight_size_; }
  // Nobody joins a foremost request that is slow, and its statement gets a connection of its own the next time.
  [[nodiscard]] bool can_share(std::size_t pipeline, Instant now) const {
    return state_ == State::ready && role_ == Role::shared && leased_ == nullptr && !draining_ && !cancelling_ &&
           flight_size_ < pipeline && (flight_size_ == 0 || now - foremost_since_ < slow_);
  }
  [[nodiscard]] bool idle() const {
    return state_ == State::ready && leased_ == nullptr && !draining_ && !cancelling_ && !dispatching_ &&
           flight_size_ == 0;
  }

  // Writes the request; it goes out at the end of the turn. Precondition: can_share(), or idle().
  void send_shared(Query& query);
  // Nobody waits for the answer of a shared request any more. Once it is slow and the foremost, it is cancelled.
  void forget(Query& query);
  // The query has been destroyed, or has taken its rows, while they were being handed over.
  void taken() { delivering_ = nullptr; }

  // Gives the connection to one query. Precondition: idle().
  void lease(Query& query, bool changes_role);
  // Ends the lease. What has not been answered is cancelled at the server and read to its end before the next use.
  void release(Query& query);

  // During a lease.

  enum class Progress : std::uint8_t {
    ready,      // rows or the end of the answer; a message
    need_more,  // receive() first
    too_large,  // a row over max_row_bytes
    unknown,    // the columns have types that are being looked up; nothing has been cut
    broken,     // the connection has ended: failure()
  };
  enum class Received : std::uint8_t { bytes, nothing, broken };

  struct Piece {
    std::span<const Column> columns;  // with rows, or finished
    std::span<const Field> fields;
    std::size_t rows = 0;
    std::size_t bytes = 0;
    bool finished = false;               // ReadyForQuery has come
    bool failing = false;                // an error has come, behind the rows
    std::unique_ptr<ServerError> error;  // with finished
    bool stale = false;                  // with finished: the statement has to be prepared again
    bool unusable = false;               // with finished: it is no result that has columns
  };

  void send_exclusive(Query& query);
  // Cuts what has arrived; gives up what the last call gave.
  [[nodiscard]] Progress scan(Piece& piece);
  // One attempt at the socket. Nothing: the lease's owner is told when there is more, or has gathered.
  [[nodiscard]] Received receive();
  // For conversations that are no queries: the messages go to out(), one Sync or Query a time.
  [[nodiscard]] Buffer& out() { return out_; }
  void expect_answer(Query& query);
  [[nodiscard]] Progress next_message(Message& message);
  // As next_message(); but rows that stand together come as one piece (`ready`, and piece.rows is not 0).
  [[nodiscard]] Progress next_rows(std::span<const Column> columns, Piece& piece, Message& message);
  // What has been received and not been given up; for those who read ahead.
  [[nodiscard]] std::size_t buffered() const { return inbox_.size(); }

  // How long it waits for a statement that has no deadline of its own; Duration::max(): as long as it takes.
  [[nodiscard]] Duration patience() const;

  // For a conversation that is a transaction. What is still open at its release is rolled back.
  // `changes_session`: it may change more than its transaction, so the session is reset at the release if was_reset()
  // has not been called by then.
  void begin_transaction(bool changes_session) {
    in_transaction_ = true;
    unreset_ |= changes_session;
  }
  // Likewise: temporary tables that it makes are dropped at the release.
  void make_temporary() { has_temporary_ = true; }
  // Behind its COMMIT: reset_commands commands that make the session what it was when it began. was_reset() follows
  // once the server has done them all.
  void write_reset();
  void was_reset() {
    role_ = opened_as_;
    role_known_ = true;
    unreset_ = has_temporary_ = false;
  }
  // Wakes the conversation once all of out() has been sent.
  [[nodiscard]] bool has_unsent() const { return !out_.empty() || stream_.has_unsent(); }
  void wake_when_sent() { wakes_when_sent_ = true; }
  // Bind and Execute, no Sync; before them, where the connection does not have the statement yet, Parse and Describe
  // (true: what comes of it goes to step_described(), or step_failed()).
  [[nodiscard]] bool write_step(const Statement& statement, std::uint16_t count, std::string_view parameters);
  // No fields: it returns no rows. False: it has types that are being looked up, or columns where it had none.
  [[nodiscard]] bool step_described(const Statement& statement, std::span<const FieldDescription> fields);
  // Whether the connection has the statement is not known.
  void step_failed(const Statement& statement);
  // As it was described last.
  [[nodiscard]] std::span<const Column> step_columns(const Statement& statement);

  [[nodiscard]] const Error& failure() const { return failure_; }

  // Sends what has gathered, at the end of the turn.
  void flush_soon();
  // How a CancelRequest ended: never sent; sent, and the server has given its signal; or sent, and nothing was heard.
  enum class Cancel : std::uint8_t { unsent, done, unknown };
  void cancel_finished(std::uint64_t life, Cancel outcome);
  // What only time can tell: an answer that does not come, or that nobody waits for; a cancelled one that does not end;
  // nobody who asks.
  void look_around();

 private:
  // What the server has said of a statement's columns.
  struct Described {
    enum class Kind : std::uint8_t {
      nothing,
      usable,
      unknown,   // their types are being looked up
      unusable,  // there are none any more
    };
    Kind kind = Kind::nothing;
    const ColumnLists::List* list = nullptr;  // usable; null: the statement's own
  };
  struct Prepared {
    enum class State : std::uint8_t { no, yes, stale };
    State state = State::no;  // for the next request that is sent
    Described described;      // for the next answer that comes
    std::uint64_t serial = 0;
  };

  struct InFlight {
    Query* query = nullptr;  // null: nobody waits, or a session setting
    StatementId statement{};
    bool setting = false;   // SET, of our own
    bool prepares = false;  // Parse and Describe go ahead of Bind
    bool named = false;
    bool synced = true;         // followed by a Sync; false: the batch goes on with the next one
    bool conversation = false;  // whatever stands before its ReadyForQuery
    bool resets = false;        // the session is reset behind it
    Instant deadline = never;
    std::uint8_t before = 0;  // commands of our own that go ahead of the statement, in the same flight
    std::uint8_t after = 0;   // and behind it
  };
  // What has arrived of the foremost request's answer.
  struct Answer {
    std::size_t rows = 0;
    std::size_t complete_rows = 0;  // when its command was complete
    bool complete = false;
    std::uint8_t commands = 0;  // that have ended
    Described described;        // where it was asked for
    bool bound = false;
    bool suspended = false;
    bool discard = false;  // its rows are read and dropped
    bool unusable = false;
    std::unique_ptr<ServerError> error;
  };
  struct ReadWaiter : core::Waiter {
    ReadWaiter(Callback on_ready, Connection& owner) : Waiter(on_ready), owner(owner) {}
    Connection& owner;
  };
  struct Watchdog : core::Timer {
    Watchdog(Callback fire, Connection& owner) : Timer(fire), owner(owner) {}
    Connection& owner;
  };
  struct Hook : core::TurnHook {
    Hook(Callback run, Connection& owner) : TurnHook(run), owner(owner) {}
    Connection& owner;
  };
  struct Event;

  void close();

  void write_statement(Query& query, std::uint32_t row_limit);
  void clean_up();
  void set_role(Role role);
  void push(const InFlight& entry);
  void begin_foremost();
  InFlight pop();
  [[nodiscard]] InFlight& foremost() { return flight_[flight_first_]; }
  [[nodiscard]] Prepared& prepared(StatementId id);

  void pump();
  [[nodiscard]] bool pass_over(const Message& message);
  void handle(const Message& message);
  void handle_error(const Message& message);
  void take_description(const Message& message);
  [[nodiscard]] Described described(const InFlight& entry);
  void complete_foremost();
  // Whether what comes now is of a command of our own, and not of the foremost request's statement.
  [[nodiscard]] bool is_own_command() const {
    if (flight_size_ == 0) return false;
    const InFlight& entry = flight_[flight_first_];
    return entry.after != 0 && answer_.commands != entry.before;
  }
  void drop_own_row();
  void finish_command();
  void handle_ready(const Message& message);
  void drop_skipped();
  void end_batch();
  [[nodiscard]] bool foremost_is_abandoned() const;
  void deliver(Query& query, const Answer& answer, std::span<const Column> columns);
  [[nodiscard]] bool cut_answer(std::size_t rows, std::size_t columns);
  bool overflow(std::size_t message_size);
  [[nodiscard]] Received receive(std::size_t& total);
  void wait_for_more();
  void break_off(std::string_view why);
  void break_off(Error why);
  void flush();
  void wake_runner();
  void end_drain();
  void cancel_abandoned();
  [[nodiscard]] bool hit_by_our_cancel(const ServerError& error) const;
  void watch(Instant when);

  static void on_readable(core::Waiter& waiter) noexcept;
  static void on_writable(core::Waiter& waiter) noexcept;
  static void on_timer(core::Timer& timer) noexcept;
  static void on_turn_end(core::TurnHook& hook) noexcept;

  Pool& pool_;
  const std::size_t index_;
  const Duration slow_;
  net::Stream stream_;
  core::Lull lull_;
  ReadWaiter reader_;
  ReadWaiter writer_;
  Watchdog watchdog_;
  Hook hook_;
  std::coroutine_handle<> runner_;  // run(), while it waits

  State state_ = State::off;
  Role role_ = Role::shared;
  Role opened_as_ = Role::shared;
  bool role_known_ = true;      // false: a reset is on its way, and it may fail
  bool draining_ = false;       // the rest of a cancelled answer is being dropped
  bool cancelling_ = false;     // a CancelRequest is on its way: it must not hit the next query
  std::size_t may_be_hit_ = 0;  // requests in flight that a cancel, sent for one before them, may have hit
  bool dispatching_ = false;    // answers are being handed over
  std::uint64_t life_ = 0;      // counts openings
  BackendKey key_;
  core::Address address_;
  Error failure_;
  Instant drain_deadline_ = never;
  Instant foremost_since_ = never;
  Instant cancel_due_ = never;  // for the foremost request, should nobody wait for it
  Instant idle_since_ = never;

  Inbox inbox_;
  Buffer out_;
  std::vector<Field> fields_;
  std::vector<Prepared> prepared_;  // by StatementId::slot

  std::vector<InFlight> flight_;  // a ring
  std::size_t flight_first_ = 0;
  std::size_t flight_size_ = 0;
  std::size_t batch_ = 0;       // requests in out_ that the next Sync will be for
  bool has_temporary_ = false;  // it has made temporary tables
  bool wakes_when_sent_ = false;
  Prepared unnamed_;
  bool in_transaction_ = false;  // a transaction of a conversation may be open
  bool unreset_ = false;         // its session may have been changed, and must be reset before the next use
  bool skipping_ = false;        // a request has failed, and the server skips what follows up to the Sync
  bool batch_slow_ = false;      // a batch's answers come together: all of its statements count as slow
  Answer answer_;

  Query* leased_ = nullptr;
  Query* delivering_ = nullptr;
  bool lease_finished_ = false;
  bool lease_stale_ = false;
  Gathering gathering_;
  std::span<const Column> lease_columns_;
};

}  // namespace sluice::sql::postgres
