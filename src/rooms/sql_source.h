#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "core/reactor.h"
#include "rooms/source.h"
#include "sql/database.h"
#include "sql/encode/encoder.h"

namespace sluice::rooms {

// The statements of a room, prepared. Immutable, shared by all cores.
struct History {
  sql::Statement query;     // has the column `seq`
  sql::Statement counters;  // counters_of()
  sql::Dialect dialect{};
  // Of the query's parameters, in their order: an index among the values of a Name; nothing: `after`.
  std::vector<std::optional<std::size_t>> arguments;
  std::vector<sql::ParameterType> types;  // of the query's parameters
};

// Reads a database by the statements of the configuration.
class SqlSource final : public Source {
 public:
  static constexpr Duration patience = 30s;  // of a query
  // Limits of one read, whatever the LIMIT of the query is; the next one goes on.
  static constexpr std::size_t most_rows = 1000;
  static constexpr std::size_t most_bytes = 4 << 20;

  SqlSource(std::shared_ptr<const History> history, std::shared_ptr<sql::Database> database, core::Reactor& reactor)
      : history_(std::move(history)), database_(std::move(database)), reactor_(reactor) {}

  [[nodiscard]] core::Task<sql::Result<Counters>> counters(std::vector<SharedName> rooms) override;
  [[nodiscard]] core::Task<sql::Result<Publications>> after(SharedName room, std::uint64_t offset) override;

 private:
  const std::shared_ptr<const History> history_;
  const std::shared_ptr<sql::Database> database_;
  core::Reactor& reactor_;
};

}  // namespace sluice::rooms
