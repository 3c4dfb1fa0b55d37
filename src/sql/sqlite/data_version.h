#pragma once

#include <cstdint>
#include <memory>

#include "sql/change_probe.h"
#include "sql/sqlite/connection.h"
#include "sql/sqlite/options.h"

namespace sluice::sql {

// PRAGMA data_version, on a connection of its own: the number changes with the commits of all others, those of this
// process included.
class DataVersion final : public ChangeProbe {
 public:
  [[nodiscard]] static Result<std::unique_ptr<DataVersion>> open(const SqliteOptions& options);

  [[nodiscard]] core::Task<Result<std::uint64_t>> version(core::BlockingPool& threads, core::Mailbox& mailbox) override;

 private:
  explicit DataVersion(std::shared_ptr<sqlite::Connection> connection) : connection_(std::move(connection)) {}

  const std::shared_ptr<sqlite::Connection> connection_;  // also of the thread that asks, when nobody waits any more
};

}  // namespace sluice::sql
