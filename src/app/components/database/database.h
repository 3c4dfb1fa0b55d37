#pragma once

#include <memory>
#include <utility>

#include "app/components/component.h"
#include "app/components/file_id.h"
#include "base/declare.h"
#include "base/log.h"
#include "sql/database.h"
#include "sql/open.h"
#include "sql/sqlite/commit_observers.h"
#include "sql/statement_ids.h"

namespace sluice::app {

// [database.NAME]. Not quite immutable: the part that all cores share is set before the cores get it. Databases that
// differ only in what Database::resize() changes are the same.
class DatabaseComponent final : public ComponentOf<DatabaseComponent, sql::Database>,
                                public std::enable_shared_from_this<DatabaseComponent> {
 public:
  explicit DatabaseComponent(Named<sql::DatabaseOptions> of)
      : options(std::move(of)),
        trouble("database " + options.name.value),
        write_trouble("database " + options.name.value + ", writing") {}

  const Named<sql::DatabaseOptions> options;
  FileId file;                                      // of SQLite; zeros for PostgreSQL
  bool writes = false;                              // SQLite: this process may write to the database
  std::shared_ptr<sql::CommitObservers> observers;  // of the file; shared by all databases with this file
  std::shared_ptr<sql::StatementIds> ids = std::make_shared<sql::StatementIds>();
  std::shared_ptr<sql::SharedDatabase> shared;  // null before open_shared_parts(), and if nothing is shared
  // Writes can fail while reads succeed, if the disk is full or another program holds the lock.
  TroubleLog trouble;
  TroubleLog write_trouble;

 private:
  std::shared_ptr<sql::Database> make(const core::Here& here, const Parts& parts) const override;
  void retire(sql::Database& database) const override { database.retire(); }
  [[nodiscard]] bool lingers() const override { return true; }
  Readings readings_of(sql::Database& database) const override;
  core::Task<runtime::Readiness> readiness_of(sql::Database& database, Instant deadline) const override;
};

}  // namespace sluice::app
