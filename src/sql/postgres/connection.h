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
#include "sql/postgres/cancel.h"
#include "sql/postgres/exchange.h"
#include "sql/postgres/gathering.h"
#include "sql/postgres/inbox.h"
#include "sql/postgres/messages.h"
#include "sql/postgres/plan_cache.h"
#include "sql/postgres/server_error.h"
#include "sql/postgres/session_condition.h"
#include "sql/postgres/sessions.h"

namespace sluice::sql::postgres {

// One connection to the server and its requests in flight. The object lives as long as its pool; after the connection
// closes, the same object opens the next one.
//
// Requests are answered in the order in which they were sent. An answer ends with its own ReadyForQuery. Where
// Options::batch lets look-ups share a Sync, an answer ends with its CommandComplete. If a request of such a batch
// fails, the server skips the requests after it, and these are sent again, each alone. The connection is used in one of
// two ways at a time:
//   shared: many requests in flight; the connection collects the first request's answer in its inbox and hands it
//           over when it is complete;
//   leased: one request uses it alone and reads when it needs more, so that a slow client slows down the server.
class Connection final : private Cancel::Session {
 public:
  enum class State : std::uint8_t { off, opening, ready, broken };
  using Role = SessionCondition::Role;
  using Access = SessionCondition::Access;

  // Where both the client and the server enforce a timeout, the client waits this much longer.
  static constexpr Duration grace = std::chrono::seconds(1);
  // A shared answer beyond these limits is discarded, and the request is repeated on an exclusive connection.
  static constexpr std::size_t shared_bytes = 1 << 20;
  static constexpr std::uint32_t shared_rows = 1000;
  static constexpr std::size_t longest_message = 1 << 20;  // except rows
  // How long a session waits after a write for another one, which brings the reset along.
  static constexpr Duration reset_pause = std::chrono::milliseconds(5);
  // The answer of a write is kept up to this size, because the write cannot be repeated.
  static constexpr std::size_t written_bytes = 16 << 20;
  static constexpr std::size_t most_writes = 4;  // in flight on one connection

  Connection(Sessions& pool, std::size_t index);
  Connection(const Connection&) = delete;
  ~Connection();

  // Opens the connection, serves until it ends, closes it, and reports the outcome to the pool.
  [[nodiscard]] core::Task<void> run(Role role);

  [[nodiscard]] State state() const { return state_; }
  [[nodiscard]] Role role() const { return condition_.role(); }
  [[nodiscard]] Access access() const { return condition_.access(); }
  // When the session became ready.
  [[nodiscard]] Instant open_since() const { return open_since_; }
  // When the current attempt to open the connection began. Precondition: the state is `opening`.
  [[nodiscard]] Instant opening_since() const { return opening_since_; }
  [[nodiscard]] bool encrypted() const { return stream_.tls() != nullptr; }
  [[nodiscard]] bool leased() const { return leased_ != nullptr; }
  [[nodiscard]] std::size_t in_flight() const override { return flight_size_; }
  // No request joins a slow one that is first in flight; the slow statement gets an exclusive connection the next time.
  [[nodiscard]] bool can_share(std::size_t pipeline, Instant now) const {
    return can_pipeline(pipeline, now) && (flight_size_ == 0 || !serves_writes_);
  }
  // The same for a write (send_write()). Reads and writes never share a connection. Between two writes is a reset.
  [[nodiscard]] bool can_share_writes(Instant now) const {
    return can_pipeline(2 * most_writes - 1, now) && flight_size_ != 0 && serves_writes_;
  }
  // Whether a write of this plan may be sent without BEGIN: its columns are known, and no cancel can hit its commit.
  [[nodiscard]] bool can_write(const PlanCache::Key& key) const {
    return plans_.is_described(key) && !cancel_.may_have_hit();
  }
  // Whether the next request may use it.
  [[nodiscard]] bool idle() const { return !given_up_ && has_no_work(); }
  // Closes the session as soon as its requests have ended, if it was opened before `limit`.
  void give_up(Instant limit);

  // Writes the request, to be sent at the end of the turn. Precondition: can_share(), or idle().
  void send_shared(Exchange& exchange, const Request& request);
  // Writes a statement that is its whole transaction: settings, statement and Sync, which commits. It is never
  // cancelled while anybody waits for an answer of this session: a cancel that hits a commit which waits for its
  // standbys makes the server acknowledge it. Precondition: can_write(), and can_share_writes() or idle().
  void send_write(Exchange& exchange, const Request& request);
  // Discards the answer of a shared request. When the request is first in flight and slow, it is cancelled.
  void forget(const Exchange& exchange);
  // Called when an exchange has been destroyed, or has taken its rows, during their delivery.
  void taken() { delivering_ = nullptr; }

  // Gives the connection to one exchange. Precondition: idle().
  void lease(Exchange& exchange, bool changes_role);
  // Ends the lease. An unfinished answer is cancelled at the server and read to its end before the next use.
  void release();

  // The functions from here to failure() are for a lease.

  enum class Progress : std::uint8_t {
    ready,      // rows, the end of the answer, or a message
    need_more,  // call receive() first
    too_large,  // a row exceeds max_row_bytes
    unknown,    // the types of the columns are being looked up; no row has been parsed
    broken,     // the connection has ended; see failure()
  };
  enum class Received : std::uint8_t { bytes, nothing, broken };

  struct Piece {
    std::span<const Column> columns;  // valid if there are rows, or if finished
    std::span<const Field> fields;
    std::size_t rows = 0;
    std::size_t bytes = 0;
    bool finished = false;               // ReadyForQuery has arrived
    bool failing = false;                // an error follows the rows
    std::unique_ptr<ServerError> error;  // set only if finished; null: the statement succeeded
    bool stale = false;                  // if finished: the statement must be prepared again
    bool unusable = false;               // if finished: the result has no columns
  };

  void send_exclusive(Exchange& exchange, const Request& request);
  // Parses the received bytes into rows. Invalidates the previous piece.
  [[nodiscard]] Progress scan(Piece& piece);
  // Reads the socket once. If it returns `nothing`, the lease's owner is woken when more bytes have arrived, or after
  // the pause in which a fast answer accumulates (see Gathering).
  [[nodiscard]] Received receive();
  // For conversations other than queries. Their messages go to out(), with one Sync or Query at a time.
  [[nodiscard]] Buffer& out() { return out_; }
  void expect_answer(Exchange& exchange);
  [[nodiscard]] Progress next_message(Message& message);
  // Like next_message(), but consecutive rows come as one piece (`ready`, and piece.rows is not 0).
  [[nodiscard]] Progress next_rows(std::span<const Column> columns, Piece& piece, Message& message);
  // Bytes received and not yet released, for callers that read ahead.
  [[nodiscard]] std::size_t buffered() const { return inbox_.size(); }

  // How long to wait for a statement that has no deadline of its own; Duration::max() means without limit.
  [[nodiscard]] Duration patience() const;

  // For a conversation that is a transaction. A transaction that is still open at the release is rolled back.
  // `changes_session`: it may change more than its transaction, so the session is reset at the release, unless
  // was_reset() has been called before.
  // `access`: `unknown` leaves the session's access as it is.
  void begin_transaction(bool changes_session, Access access = Access::unknown);
  // Also for such a conversation: temporary tables that it creates are dropped at the release.
  void make_temporary() { condition_.make_temporary(); }
  // Writes, after COMMIT, the reset_commands commands that restore the session's initial state. was_reset() is called
  // when the server has completed all of them.
  void write_reset();
  void was_reset() { condition_.was_reset(); }
  // Wakes the conversation once all of out() has been sent.
  [[nodiscard]] bool has_unsent() const { return !out_.empty() || stream_.has_unsent(); }
  void wake_when_sent() { lease_.wakes_when_sent = true; }
  [[nodiscard]] PlanCache& plans() { return plans_; }
  [[nodiscard]] const Error& failure() const { return failure_; }

  // Sends the content of out() at the end of the turn.
  void flush_soon();
  // Runs on a timer: detects a missing answer, an answer that no request wants, a cancelled answer that does not end,
  // and an idle connection.
  void look_around();

 private:
  using Described = PlanCache::Description;

  struct InFlight {
    enum class Kind : std::uint8_t {
      query,
      write,
      setting,       // a SET or a reset of Sluice itself
      conversation,  // any messages up to ReadyForQuery
    };
    Kind kind = Kind::query;
    Exchange* exchange = nullptr;          // null: it has left, or this is a setting
    const Statement* statement = nullptr;  // null, or as long as its exchange
    PlanCache::Key plan{};
    bool prepares = false;      // Parse and Describe precede Bind
    bool synced = true;         // followed by a Sync; false: the next entry belongs to the same batch
    bool checks_types = false;  // Statement::type_check is the last command before it
    bool sets_role = false;     // by the last command before the type check
    Instant deadline = never;
    std::uint8_t before = 0;  // Sluice's own commands before the statement, in the same flight
    std::uint8_t after = 0;   // Sluice's own commands after it
  };
  // The part of the first request's answer that has arrived.
  struct Answer {
    enum class End : std::uint8_t { none, complete, suspended };
    std::size_t rows = 0;
    std::size_t complete_rows = 0;  // `rows` when the statement had ended
    std::uint64_t changes = 0;
    End end = End::none;        // of the statement
    std::uint8_t commands = 0;  // commands that have completed
    Described described;        // if Describe was sent
    bool bound = false;
    bool discard = false;  // its rows are read and discarded
    bool unusable = false;
    std::unique_ptr<ServerError> error;
  };
  struct Batch {
    std::size_t size = 0;  // requests in out_ that the next Sync will end
    bool is_slow = false;  // its answers arrive together, so all of its statements count as slow
  };
  // The answer that the lease's owner reads.
  struct Lease {
    bool wakes_when_sent = false;
    bool is_finished = false;
    bool is_stale = false;
    std::span<const Column> columns;
    Gathering gathering;
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

  void set_state(State state);
  void close();

  // The condition that reads and writes have in common.
  [[nodiscard]] bool can_pipeline(std::size_t most, Instant now) const {
    return state_ == State::ready && role() == Role::shared && leased_ == nullptr && !is_draining() &&
           !cancel_.is_on_its_way() && !given_up_ && flight_size_ < most &&
           (flight_size_ == 0 || now - foremost_since_ < slow_);
  }
  void write_statement(InFlight::Kind kind, Exchange& exchange, const Request& request, bool shared,
                       std::uint32_t row_limit);
  void push_setting(std::string_view sql);
  void clean_up();
  void end_writes();
  [[nodiscard]] bool has_no_work() const {
    return state_ == State::ready && leased_ == nullptr && !is_draining() && !cancel_.is_on_its_way() &&
           !dispatching_ && flight_size_ == 0;
  }
  void set_role(Role role);
  void set_access(Access access);
  void push(const InFlight& entry);
  void begin_foremost();
  InFlight pop();
  [[nodiscard]] InFlight& foremost() { return flight_[flight_first_]; }

  void pump();
  [[nodiscard]] bool pass_over(const Message& message);
  void handle(const Message& message);
  void handle_error(const Message& message);
  void take_notice(const Message& message);
  void take_description(const Message& message);
  [[nodiscard]] Described described(const InFlight& entry);
  void complete_foremost();
  // Whether the next messages answer one of Sluice's own commands and not the request's statement.
  [[nodiscard]] bool is_own_command() const {
    if (flight_size_ == 0) return false;
    const InFlight& entry = flight_[flight_first_];
    return entry.before + entry.after != 0 && answer_.commands != entry.before;
  }
  void drop_own_row();
  [[nodiscard]] std::size_t most_bytes() const {
    return flight_size_ != 0 && flight_[flight_first_].kind == InFlight::Kind::write ? written_bytes : shared_bytes;
  }
  void finish_command(const Message& message);
  void handle_ready(const Message& message);
  void drop_skipped();
  void end_batch();
  [[nodiscard]] bool foremost_is_abandoned() const;
  void give(const InFlight& entry, Answer& answer, bool stale, bool hit, const Described& columns);
  void deliver(Exchange& exchange, const Answer& answer, std::span<const Column> columns);
  [[nodiscard]] bool is_draining() const { return drain_deadline_ != never; }
  void cancel_ended() override;
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

  Sessions& pool_;
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
  SessionCondition condition_;
  Cancel cancel_;
  bool given_up_ = false;       // closes when its requests have ended
  bool serves_writes_ = false;  // the requests in flight write
  bool dispatching_ = false;    // answers are being delivered
  Error failure_;
  Instant drain_deadline_ = never;  // not `never`: the rest of a cancelled answer is being discarded
  Instant foremost_since_ = never;
  Instant cancel_due_ = never;  // when to cancel the first request if it is abandoned
  Instant idle_since_ = never;
  Instant opening_since_{};
  Instant open_since_{};

  Inbox inbox_;
  Buffer out_;
  std::vector<Field> fields_;
  PlanCache plans_;

  std::vector<InFlight> flight_;  // ring buffer
  std::size_t flight_first_ = 0;
  std::size_t flight_size_ = 0;
  bool skipping_ = false;  // a request has failed, and the server skips all messages up to the Sync
  Batch batch_;
  Answer answer_;

  Exchange* leased_ = nullptr;
  Exchange* delivering_ = nullptr;
  Lease lease_;
};

}  // namespace sluice::sql::postgres
