#pragma once

#include <cstdint>
#include <memory>

#include "sql/change_probe.h"
#include "sql/sqlite/connection.h"
#include "sql/sqlite/options.h"

namespace sluice::sql {

// PRAGMA data_version on a connection of its own. The number changes with the commits of all other connections,
// including those of this process.
class DataVersion final : public ChangeProbe {
 public:
  [[nodiscard]] static Result<std::unique_ptr<DataVersion>> open(const SqliteOptions& options);

  [[nodiscard]] core::Task<Result<std::uint64_t>> version(core::BlockingPool& threads, core::Mailbox& mailbox) override;

 private:
  explicit DataVersion(std::shared_ptr<sqlite::Connection> connection) : connection_(std::move(connection)) {}

  // Shared with the thread that reads the number, because the probe may be destroyed meanwhile.
  const std::shared_ptr<sqlite::Connection> connection_;
};

}  // namespace sluice::sql
