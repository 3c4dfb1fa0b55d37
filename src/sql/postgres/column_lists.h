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

// The actual columns of one core's statements whose tables have changed since the statements were prepared. A list
// lives as long as its statement, and no two lists of a statement are equal.
class ColumnLists {
 public:
  using List = std::vector<Column>;

  explicit ColumnLists(Pool& pool) : pool_(pool) {}
  ColumnLists(const ColumnLists&) = delete;

  // Finds the list that matches the server's description. Null: the statement's own list. nullopt: the columns have
  // types that are not known yet; look_up() asks the catalog for them.
  [[nodiscard]] std::optional<const List*> find(const Statement& statement, std::span<const FieldDescription> fields);

  // Asks the catalog, once for all requests of the statement. Afterwards find() knows the list.
  void look_up(const Statement& statement, std::span<const FieldDescription> fields);
  [[nodiscard]] bool is_looking_up(StatementId id) const;
  // Wakes the query when the catalog has answered; the query then starts over or fails.
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
  std::unordered_map<std::uint32_t, Entry> entries_;  // by StatementId::slot; only changed statements
};

}  // namespace sluice::sql::postgres
