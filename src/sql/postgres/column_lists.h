#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "sql/database.h"
#include "sql/postgres/messages.h"

namespace sluice::sql::postgres {

// The actual columns of one core's statements whose tables have changed since the statements were prepared. A list
// lives as long as its statement, and no two lists of a statement are equal.
class ColumnLists {
 public:
  using List = std::vector<Column>;

  // Asks the server's catalog for the types of columns, and then calls found().
  class Catalog {
   public:
    virtual void look_up(StatementId id, List columns, bool types_changed) = 0;

   protected:
    ~Catalog() = default;
  };
  // A request that waits for a look-up.
  class Waiter {
   public:
    // The request then starts over, or fails.
    virtual void columns_known(const Result<void>& outcome) = 0;

    struct {
      StatementId id;
      Waiter* next = nullptr;
      Waiter* previous = nullptr;
    } look_up;

   protected:
    ~Waiter() = default;
  };

  explicit ColumnLists(Catalog& catalog) : catalog_(catalog) {}
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
  // `columns`: with their types, unless `outcome` is an error. `type_check`: of these types.
  void found(StatementId id, bool types_changed, const Result<void>& outcome, List columns, std::string type_check);
  void wait(Waiter& waiter, StatementId id);
  void leave(Waiter& waiter);

 private:
  struct Entry {
    std::vector<std::unique_ptr<const List>> lists;
    std::uint64_t serial = 0;
    bool is_looking_up = false;
    std::uint32_t type_changes = 0;
    std::string type_check;  // replaces the statement's own if there were changes
    Waiter* first_waiting = nullptr;
  };

  [[nodiscard]] Entry& entry(StatementId id);
  void look_up(const Statement& statement, List columns, bool types_changed);
  [[nodiscard]] const Entry* existing_entry(StatementId id) const;

  Catalog& catalog_;
  std::unordered_map<std::uint32_t, Entry> entries_;  // by StatementId::slot; only changed statements
};

}  // namespace sluice::sql::postgres
