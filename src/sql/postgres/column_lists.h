#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/task.h"
#include "sql/database.h"
#include "sql/postgres/messages.h"

namespace sluice::sql::postgres {

class Pool;
class Query;

// The columns that the statements of one core have turned out to have, where they are not those that were prepared:
// somebody has changed the table. Lists stay as long as the statement does, and none is there twice.
class ColumnLists {
 public:
  using List = std::vector<Column>;

  explicit ColumnLists(Pool& pool) : pool_(pool) {}
  ColumnLists(const ColumnLists&) = delete;

  // The list that the server describes. Null: the statement's own. None: it has types that nobody has asked the catalog
  // about yet; look_up() does.
  [[nodiscard]] std::optional<const List*> find(const Statement& statement, std::span<const FieldDescription> fields);

  // Asks the catalog, once for all requests of the statement; the next find() knows the list.
  void look_up(const Statement& statement, std::span<const FieldDescription> fields);
  [[nodiscard]] bool is_looking_up(StatementId id) const;
  // Wakes the query when the catalog has answered: it starts over then, or has failed.
  void wait(Query& query);
  void leave(Query& query);

 private:
  struct Entry {
    std::vector<std::unique_ptr<const List>> lists;
    std::uint64_t serial = 0;
    bool is_looking_up = false;
    Query* first_waiting = nullptr;
  };

  [[nodiscard]] Entry& entry(StatementId id);
  [[nodiscard]] core::Task<void> find_out(StatementId id, List columns);

  Pool& pool_;
  std::unordered_map<std::uint32_t, Entry> entries_;  // by StatementId::slot; of statements that have changed
};

}  // namespace sluice::sql::postgres
