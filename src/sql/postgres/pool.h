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
#include "sql/postgres/query.h"

namespace sluice::sql::postgres {

// Counts since the start, for one core.
struct Counters {
  std::uint64_t shared_requests = 0;
  std::uint64_t exclusive_requests = 0;
  std::uint64_t overflows = 0;   // shared answers that were too large, so the request was repeated
  std::uint64_t retries = 0;     // requests repeated after their connection was lost
  std::uint64_t reprepared = 0;  // requests repeated because the server had discarded their plan
  std::uint64_t look_ups = 0;    // catalog queries for columns' types, because a table had changed
  std::uint64_t skipped = 0;     // requests repeated because an earlier one in their batch had failed
  std::uint64_t opened = 0;      // connections opened
  std::uint64_t open_failures = 0;
  std::uint64_t lost = 0;  // connections that ended unexpectedly
  std::uint64_t cancels = 0;
  std::uint64_t cancel_hits = 0;  // shared requests repeated because a cancel for an earlier one had hit them
  std::uint64_t parallel_requests = 0;
  std::uint64_t parallel_helpers = 0;  // additional connections of parallel requests
  std::uint64_t notices = 0;
  std::uint64_t notifications = 0;
  std::uint64_t unavailable = 0;  // requests that got no connection
};

// The connections of one core, and the queries that wait for one.
class Pool {
 public:
  Pool(core::Reactor& reactor, Options options);
  Pool(const Pool&) = delete;
  ~Pool();

  [[nodiscard]] core::Reactor& reactor() const { return reactor_; }
  [[nodiscard]] const Options& options() const { return options_; }
  [[nodiscard]] Counters& counters() { return counters_; }
  [[nodiscard]] net::tls::CoreState& tls() { return tls_; }
  [[nodiscard]] std::size_t open_connections() const;
  [[nodiscard]] ColumnLists& column_lists() { return column_lists_; }
  // Whether a statement may be sent again after the server has started it.
  [[nodiscard]] bool may_repeat() const { return options_.prepared && options_.read_only; }
  // The pool owns the task from now on.
  void spawn(core::Task<void> task) { tasks_.spawn(std::move(task)); }
  [[nodiscard]] std::size_t idle_connections() const;
  [[nodiscard]] std::size_t waiting() const { return waiting_; }  // without helpers

  // Gives the query a connection, puts it in the queue, or fails it.
  void admit(Query& query);
  void leave_queue(Query& query);
  // Stops keeping idle connections; from now on connections are opened only for requests.
  void retire();
  // As Database::resize().
  void resize(std::size_t connections, Duration wait);
  // Whether the connection of this index closes when it is idle.
  [[nodiscard]] bool is_surplus(std::size_t index) const { return retired_ || index >= allowed().size(); }
  // Called when connections have become free or have closed.
  void serve_soon() { reactor_.at_turn_end(serve_hook_); }
  // Duration::max() if there is no timeout.
  [[nodiscard]] Duration statement_timeout() const {
    const std::uint32_t timeout = options_.statement_timeout_ms;
    return timeout == 0 ? Duration::max() : Duration(std::chrono::milliseconds(timeout));
  }
  // Whether the session's statement_timeout would stop a request before its own, later deadline.
  [[nodiscard]] bool server_stops_before(Instant deadline) const {
    return deadline != never && options_.prepared && options_.statement_timeout_ms != 0 &&
           deadline > reactor_.now() + statement_timeout();
  }
  // The error for a request that gets no connection.
  [[nodiscard]] Error unavailable() const;
  [[nodiscard]] bool somebody_waits() const { return waiting_ != 0 || helpers_waiting_.first != nullptr; }

  // Whether no connection is open and the last attempts failed.
  [[nodiscard]] bool server_is_away() const;

  // The server has refused to write. Sessions stay on a server that has become a standby, though new connections may
  // reach its successor, so those opened more than a second ago are closed when they are idle.
  void give_up_sessions();

  // Called by connections.
  void opened();
  // `configuration`: the cause is a configuration error, so trying again is useless.
  void closed(bool was_ready, Duration lifetime, bool configuration, const Error& why);
  void cancel(Connection& connection, std::uint64_t life, const core::Address& address, const BackendKey& key);

  // Whether the statement's next request should have a connection for itself, judging by its previous results.
  [[nodiscard]] bool prefers_exclusive(const Statement& statement);
  void was_small(const Statement& statement);
  void was_slow(StatementId id);
  void was_large(const Statement& statement, bool overflowed);

 private:
  struct Queue {
    Query* first = nullptr;
    Query* last = nullptr;
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

  [[nodiscard]] bool place(Query& query);
  [[nodiscard]] bool place_shared(Query& query);
  [[nodiscard]] bool place_exclusive(Query& query);
  [[nodiscard]] bool place_conversation(Query& query);
  [[nodiscard]] Queue& queue_of(const Query& query) {
    switch (query.use_) {
      case Query::Use::exclusive:
      case Query::Use::stream:
        return exclusive_waiting_;
      case Query::Use::helper:
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
  [[nodiscard]] core::Task<void> send_cancel(Connection& connection, std::uint64_t life, core::Address address,
                                             BackendKey key, bool encrypted);
  static void on_retry(core::Timer& timer) noexcept;
  static void on_turn_end(core::TurnHook& hook) noexcept;

  core::Reactor& reactor_;
  Options options_;
  Counters counters_;
  net::tls::CoreState tls_;  // used by the connections
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
