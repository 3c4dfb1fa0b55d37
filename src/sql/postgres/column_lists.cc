#include "sql/postgres/column_lists.h"

#include <ranges>
#include <string>
#include <utility>

#include "sql/postgres/types.h"

namespace sluice::sql::postgres {
namespace {

bool is_same(const Column& column, const FieldDescription& field) {
  if (column.name != field.name) return false;
  // A statement that prepare() did not make has no OIDs.
  return column.type_id != 0 ? column.type_id == field.type : column.type == builtin_type(field.type);
}

bool are_same(const ColumnLists::List& columns, std::span<const FieldDescription> fields) {
  if (columns.size() != fields.size()) return false;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (!is_same(columns[i], fields[i])) return false;
  }
  return true;
}

}  // namespace

// If the slot had another statement, that one no longer exists, so no query waits for it and no block uses its lists.
ColumnLists::Entry& ColumnLists::entry(StatementId id) {
  Entry& found = entries_[id.slot];
  if (found.serial != id.serial) {
    found = {};
    found.serial = id.serial;
  }
  return found;
}

std::optional<const ColumnLists::List*> ColumnLists::find(const Statement& statement,
                                                          std::span<const FieldDescription> fields) {
  if (are_same(statement.columns, fields) && type_changes_of(statement.id) == 0) return nullptr;
  auto& lists = entry(statement.id).lists;
  for (const auto& list : lists | std::views::reverse) {  // the last one has the types as they are now
    if (are_same(*list, fields)) return list.get();
  }
  List made;
  for (const FieldDescription& field : fields) {
    made.push_back({std::string(field.name), builtin_type(field.type), field.type});
    if (made.back().type == nullptr) return std::nullopt;
  }
  return lists.emplace_back(std::make_unique<const List>(std::move(made))).get();
}

void ColumnLists::look_up(const Statement& statement, std::span<const FieldDescription> fields) {
  List columns;
  for (const FieldDescription& field : fields) columns.push_back({std::string(field.name), nullptr, field.type});
  look_up(statement, std::move(columns), false);
}

void ColumnLists::look_up_types(const Statement& statement) {
  const auto& lists = entry(statement.id).lists;
  look_up(statement, lists.empty() ? statement.columns : *lists.back(), true);
}

void ColumnLists::look_up(const Statement& statement, List columns, bool types_changed) {
  if (std::exchange(entry(statement.id).is_looking_up, true)) return;
  catalog_.look_up(statement.id, std::move(columns), types_changed);
}

const ColumnLists::Entry* ColumnLists::existing_entry(StatementId id) const {
  if (entries_.empty()) return nullptr;
  const auto found = entries_.find(id.slot);
  return found != entries_.end() && found->second.serial == id.serial ? &found->second : nullptr;
}

bool ColumnLists::is_looking_up(StatementId id) const {
  const Entry* const known = existing_entry(id);
  return known != nullptr && known->is_looking_up;
}

std::uint32_t ColumnLists::type_changes_of(StatementId id) const {
  const Entry* const known = existing_entry(id);
  return known == nullptr ? 0 : known->type_changes;
}

std::string_view ColumnLists::type_check_of(const Statement& statement) const {
  const Entry* const known = existing_entry(statement.id);
  const bool is_own = known == nullptr || known->type_changes == 0 || statement.has_composite_parameters;
  return is_own ? statement.type_check : known->type_check;
}

void ColumnLists::found(StatementId id, bool types_changed, const Result<void>& outcome, List columns,
                        std::string type_check) {
  const auto there = entries_.find(id.slot);
  if (there == entries_.end() || there->second.serial != id.serial) return;  // the statement no longer exists
  Entry& known = there->second;
  if (outcome) {
    known.lists.push_back(std::make_unique<const List>(std::move(columns)));
    if (types_changed || known.type_changes != 0) {
      ++known.type_changes;
      known.type_check = std::move(type_check);
    }
  }
  known.is_looking_up = false;
  while (Waiter* const waiter = known.first_waiting) {
    leave(*waiter);
    waiter->columns_known(outcome);
  }
}

void ColumnLists::wait(Waiter& waiter, StatementId id) {
  Waiter*& first = entry(id).first_waiting;
  waiter.look_up = {id, first, nullptr};
  if (first != nullptr) first->look_up.previous = &waiter;
  first = &waiter;
}

void ColumnLists::leave(Waiter& waiter) {
  auto& place = waiter.look_up;
  if (place.next != nullptr) place.next->look_up.previous = place.previous;
  (place.previous != nullptr ? place.previous->look_up.next : entry(place.id).first_waiting) = place.next;
  place.next = place.previous = nullptr;
}

}  // namespace sluice::sql::postgres
