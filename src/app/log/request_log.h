#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "app/log/redaction.h"
#include "app/log/request_log_options.h"
#include "base/log.h"
#include "base/reading.h"
#include "core/reactor.h"
#include "core/task.h"
#include "http/server.h"
#include "sql/database.h"
#include "sql/set/table.h"

namespace sluice::app {

// A prepared [request_log]: which item of a request goes into which column. Immutable, shared by all cores.
struct RequestLogPlan {
  enum class Item : std::uint8_t {
    time,
    client,
    method,
    target,
    path,
    query,
    route,
    host,
    user_agent,
    headers,
    subject,
    request_id,
    status,
    bytes,
    duration_us,
    broken,
    upstream,
    server,
    tries,
    server_us
  };

  RequestLogOptions options;
  std::vector<Item> items;  // the items that the table has columns for
  sql::Statement insert;    // its parameter is a JSON array of objects

  [[nodiscard]] static std::string_view name_of(Item item);
  // The items that the table has columns for; may be empty.
  [[nodiscard]] static std::vector<Item> items_of(const sql::Table& table);
  // The text of `insert`: one parameter, `:rows`.
  [[nodiscard]] static std::string insert_of(const sql::Table& table, std::span<const Item> items,
                                             sql::Dialect dialect);
};

// Writes requests as rows of a table some time after they were answered, many rows per statement. If the database is
// unavailable, up to `queue` rows wait for it; further rows are dropped and counted. If the table refuses a row, only
// that row is dropped. Each core has its own.
class RequestLog {
 public:
  struct Counters {
    std::uint64_t written = 0;
    std::uint64_t dropped = 0;

    [[nodiscard]] Readings readings() const;
  };

  // All arguments outlive this object; `routes`, the patterns by route id, only until set_routes().
  RequestLog(const RequestLogPlan& plan, const Redaction& redaction, std::span<const std::string> routes,
             sql::Database& database, core::Reactor& reactor);
  RequestLog(const RequestLog&) = delete;
  // Must be destroyed after its tasks. Logs how many rows are lost.
  ~RequestLog();

  void add(const http::Completion& completion);
  void set_routes(std::span<const std::string> routes) { routes_ = routes; }
  // Writes the added rows from time to time, until the task is cancelled.
  [[nodiscard]] core::Task<void> run();
  // Writes all rows if possible before the deadline.
  [[nodiscard]] core::Task<void> flush(Instant deadline);
  // All added rows are written or dropped.
  [[nodiscard]] bool empty() const { return rows_.empty(); }

  [[nodiscard]] const Counters& counters() const { return counters_; }

 private:
  static constexpr std::size_t rows_at_once = 1000;

  [[nodiscard]] std::string row_of(const http::Completion& completion) const;
  [[nodiscard]] core::Task<bool> write(Instant deadline);

  const RequestLogPlan& plan_;
  std::span<const std::string> routes_;
  sql::Database& database_;
  core::Reactor& reactor_;
  const Redaction& redaction_;
  TroubleLog trouble_;
  std::vector<std::string> rows_;       // JSON objects
  std::size_t writing_ = 0;             // how many rows, from the first one, the running statement writes
  std::size_t at_once_ = rows_at_once;  // rows per statement: fewer after the table has refused a row
  bool busy_ = false;
  Counters counters_;
};

// A request log with the objects that it refers to. It writes until it is destroyed.
struct RunningRequestLog {
  RunningRequestLog(std::shared_ptr<const RequestLogPlan> made, std::span<const std::string> routes,
                    std::shared_ptr<sql::Database> open, core::Reactor& reactor)
      : plan(std::move(made)),
        redaction(plan->options.redact),
        database(std::move(open)),
        log(*plan, redaction, routes, *database, reactor) {
    writing.spawn(log.run());
  }

  const std::shared_ptr<const RequestLogPlan> plan;
  const Redaction redaction;
  const std::shared_ptr<sql::Database> database;
  RequestLog log;
  core::TaskGroup writing;
};

}  // namespace sluice::app
