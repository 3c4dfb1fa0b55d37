#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/time.h"
#include "core/reactor.h"
#include "core/task.h"
#include "rooms/tables.h"
#include "sql/database.h"

namespace sluice::rooms {

// Which rooms of one table in SQLite have new rows: those whose counters were raised since the last read. SQLite tells
// only that a table has changed. Used by one core.
class Raised {
 public:
  struct Found {
    std::vector<std::pair<std::string, std::uint64_t>> counters;  // by key; at most `raised_rooms`
    bool is_all = true;                                           // otherwise read() has more
    bool is_unsure = false;  // the counters were made anew, or this is the first read: any room may have new rows
  };

  Raised(std::shared_ptr<sql::Database> database, const Published& published, core::Reactor& reactor);

  // One call at a time.
  [[nodiscard]] core::Task<sql::Result<Found>> read();

 private:
  static constexpr Duration patience = 30s;
  using Rows = std::vector<std::vector<std::string>>;

  // A query of texts; NULL is empty.
  struct Query {
    std::string text;
    std::optional<sql::Statement> statement;
  };
  [[nodiscard]] core::Task<sql::Result<Rows>> rows_of(Query& query, std::vector<sql::Argument> arguments);

  const std::shared_ptr<sql::Database> database_;
  core::Reactor& reactor_;
  Query newest_;
  Query raised_;
  std::optional<std::uint64_t> epoch_;
  std::uint64_t last_ = 0;  // the number of the last change that was read
};

}  // namespace sluice::rooms
