#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "app/redaction.h"
#include "app/request_log_options.h"
#include "base/log.h"
#include "base/reading.h"
#include "core/reactor.h"
#include "core/task.h"
#include "http/server.h"
#include "sql/database.h"
#include "sql/set/table.h"

namespace sluice::app {

// [request_log] made ready: what of a request goes into which column. Immutable, shared by all cores.
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
    status,
    bytes,
    duration_us,
    broken
  };

  RequestLogOptions options;
  std::vector<Item> items;  // that the table has columns for
  sql::Statement insert;    // of a JSON array of objects

  [[nodiscard]] static std::string_view name_of(Item item);
  // Those of the table's columns; empty: it has none.
  [[nodiscard]] static std::vector<Item> items_of(const sql::Table& table);
  // The text of `insert`: one parameter, `:rows`.
  [[nodiscard]] static std::string insert_of(const sql::Table& table, std::span<const Item> items,
                                             sql::Dialect dialect);
};

// Requests as rows of a table, written some time after they were answered, many in one statement. What cannot be
// written waits for the database to come back, up to `queue` rows; those beyond are given up, and counted. A row that
// the table refuses is given up alone. One core's.
class RequestLog {
 public:
  struct Counters {
    std::uint64_t written = 0;
    std::uint64_t dropped = 0;

    [[nodiscard]] Readings readings() const;
  };

  // All outlive this; `routes`, patterns by route id, until set_routes().
  RequestLog(const RequestLogPlan& plan, const Redaction& redaction, std::span<const std::string> routes,
             sql::Database& database, core::Reactor& reactor);
  RequestLog(const RequestLog&) = delete;
  // After its tasks. Says how many rows are lost.
  ~RequestLog();

  void add(const http::Completion& completion);
  void set_routes(std::span<const std::string> routes) { routes_ = routes; }
  // Writes what has gathered, every now and then, for as long as it is not destroyed.
  [[nodiscard]] core::Task<void> run();
  // Writes what there is, if it can be done until then.
  [[nodiscard]] core::Task<void> flush(Instant deadline);
  // All that was added is written, or given up.
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
  std::size_t writing_ = 0;             // how many of the first are on their way
  std::size_t at_once_ = rows_at_once;  // how many a statement may have: less after a row was refused
  bool busy_ = false;
  Counters counters_;
};

// One with what it refers to, which writes until it is destroyed.
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
