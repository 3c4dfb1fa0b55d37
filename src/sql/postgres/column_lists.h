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
  // The statement's type check has failed: its composite types have other attributes now. Asks the catalog for them.
  // Afterwards type_check_of() returns another check, unless the statement has composite parameters: their values are
  // converted as prepared, so such a statement fails until it is prepared again.
  void look_up_types(const Statement& statement);
  [[nodiscard]] std::string_view type_check_of(const Statement& statement) const;
  // How often the types have changed. A connection that has described the statement before must do it again.
  [[nodiscard]] std::uint32_t type_changes_of(StatementId id) const;
  [[nodiscard]] bool is_looking_up(StatementId id) const;
  // Wakes the query when the catalog has answered; the query then starts over or fails.
  void wait(Query& query);
  void leave(Query& query);

 private:
  struct Entry {
    std::vector<std::unique_ptr<const List>> lists;
    std::uint64_t serial = 0;
    bool is_looking_up = false;
    std::uint32_t type_changes = 0;
    std::string type_check;  // replaces the statement's own if there were changes
    Query* first_waiting = nullptr;
  };

  [[nodiscard]] Entry& entry(StatementId id);
  void look_up(const Statement& statement, List columns, bool types_changed);
  [[nodiscard]] const Entry* existing_entry(StatementId id) const;
  [[nodiscard]] core::Task<void> find_out(StatementId id, List columns, bool types_changed);

  Pool& pool_;
  std::unordered_map<std::uint32_t, Entry> entries_;  // by StatementId::slot; only changed statements
};

}  // namespace sluice::sql::postgres
