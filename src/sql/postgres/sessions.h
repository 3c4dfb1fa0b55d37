#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/time.h"
#include "core/reactor.h"
#include "core/task.h"
#include "sql/database.h"
#include "sql/postgres/options.h"

namespace sluice::sql::postgres {

class ColumnLists;

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

// The sessions of one core see their pool through this class: they share its state, and report to it.
class Sessions {
 public:
  Sessions(core::Reactor& reactor, Options options) : reactor_(reactor), options_(std::move(options)) {}
  Sessions(const Sessions&) = delete;

  [[nodiscard]] core::Reactor& reactor() const { return reactor_; }
  [[nodiscard]] const Options& options() const { return options_; }
  [[nodiscard]] Counters& counters() { return counters_; }
  [[nodiscard]] net::tls::CoreState& tls() { return tls_; }
  // Duration::max() if there is no timeout.
  [[nodiscard]] Duration statement_timeout() const {
    const std::uint32_t timeout = options_.statement_timeout_ms;
    return timeout == 0 ? Duration::max() : Duration(std::chrono::milliseconds(timeout));
  }
  // Whether a statement may be sent again after the server has started it.
  [[nodiscard]] bool may_repeat() const { return options_.prepared && options_.read_only; }

  [[nodiscard]] virtual ColumnLists& column_lists() = 0;
  // Owns the task from now on.
  virtual void spawn(core::Task<void> task) = 0;
  // A session has become ready.
  virtual void opened() = 0;
  // A session has ended, or could not be opened. `configuration`: the cause is a configuration error, so trying again
  // is useless.
  virtual void closed(bool was_ready, Duration lifetime, bool configuration, const Error& why) = 0;
  // A session has become free.
  virtual void serve_soon() = 0;
  [[nodiscard]] virtual bool somebody_waits() const = 0;
  // Whether a session with this index closes when it has no work; `idle_since`: since then it has none.
  [[nodiscard]] virtual bool closes_idle(std::size_t index, Instant idle_since) const = 0;
  virtual void was_slow(StatementId id) = 0;

 protected:
  ~Sessions() = default;

  core::Reactor& reactor_;
  Options options_;
  Counters counters_;
  net::tls::CoreState tls_;
};

}  // namespace sluice::sql::postgres
