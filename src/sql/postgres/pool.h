#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/reactor.h"
#include "core/task.h"
#include "sql/database.h"
#include "sql/postgres/column_lists.h"
#include "sql/postgres/connection.h"
#include "sql/postgres/options.h"
#include "sql/postgres/sessions.h"

namespace sluice::sql::postgres {

// A request that needs a connection.
class Candidate {
 public:
  enum class Use : std::uint8_t {
    shared,        // on a connection with others; the whole answer at once
    write,         // a transaction of one statement, with other writes; or a conversation, if that is not possible
    exclusive,     // alone on a connection; rows as they arrive
    conversation,  // a short exchange of Sluice itself on any idle connection
    stream,        // a conversation that may last long: it waits for its connection like an exclusive query
    helper,        // like a stream, but it only takes a connection that no other request waits for
  };

  explicit Candidate(Use use) : use_(use) {}
  Candidate(const Candidate&) = delete;

  [[nodiscard]] Use use() const { return use_; }
  // For `write`: whether the connection can execute it in one flight.
  [[nodiscard]] virtual bool can_write(const Connection& connection) const = 0;
  // It has got a connection.
  virtual void place(Connection& connection) = 0;
  // It waits for one, until it leaves the queue.
  virtual void queued() = 0;
  // It gets none.
  virtual void refuse(Error why) = 0;
  virtual void wake() = 0;

  struct {
    Candidate* next = nullptr;
    Candidate* previous = nullptr;
  } queue;

 protected:
  ~Candidate() = default;

  Use use_;
};

// The connections of one core, and the queries that wait for one.
class Pool final : public Sessions, private ColumnLists::Catalog {
 public:
  Pool(core::Reactor& reactor, Options options);
  Pool(const Pool&) = delete;
  ~Pool();

  [[nodiscard]] std::size_t open_connections() const;
  [[nodiscard]] ColumnLists& column_lists() override { return column_lists_; }
  void spawn(core::Task<void> task) override { tasks_.spawn(std::move(task)); }
  [[nodiscard]] std::size_t idle_connections() const;
  [[nodiscard]] std::size_t waiting() const { return waiting_; }  // without helpers

  // Gives the candidate a connection, puts it in the queue, or refuses it.
  void admit(Candidate& candidate);
  void leave_queue(Candidate& candidate);
  // Stops keeping idle connections; from now on connections are opened only for requests.
  void retire();
  // As Database::resize().
  void resize(std::size_t connections, Duration wait);
  [[nodiscard]] bool closes_idle(std::size_t index, Instant idle_since) const override;
  void serve_soon() override { reactor_.at_turn_end(serve_hook_); }
  // Whether the session's statement_timeout would stop a request before its own, later deadline.
  [[nodiscard]] bool server_stops_before(Instant deadline) const {
    return deadline != never && options_.prepared && options_.statement_timeout_ms != 0 &&
           deadline > reactor_.now() + statement_timeout();
  }
  // The error for a request that gets no connection.
  [[nodiscard]] Error unavailable() const;
  [[nodiscard]] bool somebody_waits() const override { return waiting_ != 0 || helpers_waiting_.first != nullptr; }

  // Whether no connection is open and the last attempts failed.
  [[nodiscard]] bool server_is_away() const;

  // The server has refused to write. Sessions stay on a server that has become a standby, though new connections may
  // reach its successor, so those opened more than a second ago are closed when they are idle.
  void give_up_sessions();

  void opened() override;
  void closed(bool was_ready, Duration lifetime, bool configuration, const Error& why) override;

  // Whether the statement's next request should have a connection for itself, judging by its previous results.
  [[nodiscard]] bool prefers_exclusive(const Statement& statement);
  // The same for a statement that is its whole transaction.
  [[nodiscard]] bool is_slow(const Statement& statement) { return habit(statement).exclusive; }
  // Such a statement has taken this long, on a connection of its own.
  void has_taken(const Statement& statement, Duration time);
  void was_small(const Statement& statement);
  void was_slow(StatementId id) override;
  void was_large(const Statement& statement, bool overflowed);

 private:
  struct Queue {
    Candidate* first = nullptr;
    Candidate* last = nullptr;
  };
  struct Habit {
    std::uint64_t serial = 0;  // identifies the statement
    bool exclusive = true;
    std::uint16_t small_results = 0;  // consecutive
    std::uint16_t enough = 8;         // small results needed before the statement is shared
  };
  struct Retry : core::Timer {
    Retry(Callback fire, Pool& owner) : Timer(fire), owner(owner) {}
    Pool& owner;
  };
  struct Hook : core::TurnHook {
    Hook(Callback run, Pool& owner) : TurnHook(run), owner(owner) {}
    Pool& owner;
  };

  [[nodiscard]] bool place(Candidate& candidate);
  [[nodiscard]] bool place_shared(Candidate& candidate);
  [[nodiscard]] bool place_exclusive(Candidate& candidate);
  [[nodiscard]] bool place_transaction(Candidate& candidate);
  void look_up(StatementId id, ColumnLists::List columns, bool types_changed) override;
  [[nodiscard]] Queue& queue_of(const Candidate& candidate) {
    switch (candidate.use()) {
      case Candidate::Use::exclusive:
      case Candidate::Use::stream:
        return exclusive_waiting_;
      case Candidate::Use::helper:
        return helpers_waiting_;
      default:
        return shared_waiting_;
    }
  }
  void serve(Queue& queue);
  void serve();
  void open_more(Connection::Role role);
  // When the next connection may be opened; `never` if all are open.
  [[nodiscard]] Instant may_grow_at() const;
  [[nodiscard]] bool can_grow() const { return may_grow_at() <= reactor_.now(); }
  // The connections that serve requests. Those behind them are left from a larger pool.
  [[nodiscard]] std::span<const std::unique_ptr<Connection>> allowed() const {
    return std::span(connections_).first(std::max<std::size_t>(options_.pool_size, 1));
  }
  [[nodiscard]] Habit& habit(const Statement& statement);
  static void on_retry(core::Timer& timer) noexcept;
  static void on_turn_end(core::TurnHook& hook) noexcept;

  std::vector<std::unique_ptr<Connection>> connections_;
  Queue shared_waiting_;
  Queue exclusive_waiting_;
  Queue helpers_waiting_;
  std::size_t waiting_ = 0;
  bool exclusive_turn_ = true;  // with a single connection, shared and exclusive requests alternate
  bool retired_ = false;
  std::uint32_t failures_ = 0;  // consecutive failures to open a connection
  Instant retry_at_{};
  Error last_failure_;
  std::uint64_t random_;
  std::vector<Habit> habits_;  // by StatementId::slot
  Retry retry_timer_;
  Hook serve_hook_;
  ColumnLists column_lists_;
  core::TaskGroup tasks_;
};

}  // namespace sluice::sql::postgres
