#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/components/room/room.h"
#include "app/prepare/loop.h"
#include "app/prepare/preparation.h"
#include "app/routes/room/options.h"
#include "rooms/tables.h"
#include "sql/database.h"

namespace sluice::app {

// All values of a query of the catalog, row by row; empty for NULL.
[[nodiscard]] core::Task<sql::Result<std::vector<std::string>>> texts_of(sql::Database& database, std::string query);

// Has the database describe what rooms need besides the statements of an endpoint: the published table, the counters,
// and the queries of `require` for many clients at once.
class PublishedPreparation {
 public:
  // Fills `into`.
  PublishedPreparation(Preparation& preparation, const RoomOptions& options, std::size_t database,
                       RoomComponent::Prepared& into);

  // Both return false if errors were reported, and fail only if the database became unreachable. The first is for the
  // table, before the statements that read it; the second needs the prepared endpoint.
  [[nodiscard]] sql::Result<bool> learn_table();
  [[nodiscard]] sql::Result<bool> prepare();

 private:
  [[nodiscard]] bool prepare_table();
  [[nodiscard]] bool prepare_history();
  [[nodiscard]] bool check_triggers();
  [[nodiscard]] bool prepare_questions();
  [[nodiscard]] std::optional<sql::Statement> take(std::string_view text, const std::vector<sql::Parameter>& declared,
                                                   std::string_view hint);
  // As texts_of(); nothing if the database is away.
  [[nodiscard]] std::optional<std::vector<std::string>> texts(const std::string& query);
  bool complain(Position position, std::string text, std::string hint = {});

  Preparation& preparation_;
  const RoomOptions& options_;
  sql::Database& database_;
  RoomComponent::Prepared& into_;
  const sql::Dialect dialect_;
  std::optional<sql::Error> away_;
};

}  // namespace sluice::app
