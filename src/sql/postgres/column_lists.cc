#include "sql/postgres/column_lists.h"

#include <string>
#include <utility>

#include "sql/postgres/describe.h"
#include "sql/postgres/pool.h"
#include "sql/postgres/query.h"
#include "sql/postgres/types.h"

namespace sluice::sql::postgres {
namespace {

constexpr Duration patience = 10s;

bool is_same(const Column& column, const FieldDescription& field) {
  if (column.name != field.name) return false;
  // A statement that was not made by prepare() has no OIDs.
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

std::optional<const ColumnLists::List*> ColumnLists::find(const Statement& statement,
                                                          std::span<const FieldDescription> fields) {
  if (are_same(statement.columns, fields)) return nullptr;
  auto& lists = entries_[statement.id].lists;
  for (const auto& list : lists) {
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
  Entry& entry = entries_[statement.id];
  if (std::exchange(entry.is_looking_up, true)) return;
  List columns;
  for (const FieldDescription& field : fields) columns.push_back({std::string(field.name), nullptr, field.type});
  ++pool_.counters().look_ups;
  pool_.spawn(find_out(statement.id, std::move(columns)));
}

bool ColumnLists::is_looking_up(std::uint32_t statement) const {
  if (entries_.empty()) return false;
  const auto found = entries_.find(statement);
  return found != entries_.end() && found->second.is_looking_up;
}

core::Task<void> ColumnLists::find_out(std::uint32_t statement, List columns) {
  Result<void> resolved;
  {
    Query conversation(pool_, pool_.reactor().now() + patience);
    while (!conversation.advance()) co_await conversation.progress();
    if (conversation.failed()) {
      resolved = std::unexpected(std::move(conversation.error()));
    } else {
      TypeCatalog types;  // a new one: types of the database's own may have changed, too
      resolved = co_await resolve_types(conversation, types, columns);
    }
  }
  Entry& entry = entries_[statement];
  if (resolved) entry.lists.push_back(std::make_unique<const List>(std::move(columns)));
  entry.is_looking_up = false;
  while (Query* const query = entry.first_waiting) {
    leave(*query);
    query->columns_known(resolved);
  }
}

void ColumnLists::wait(Query& query) {
  Query*& first = entries_[query.statement_->id].first_waiting;
  query.previous_ = nullptr;
  query.next_ = first;
  if (first != nullptr) first->previous_ = &query;
  first = &query;
}

void ColumnLists::leave(Query& query) {
  if (query.next_ != nullptr) query.next_->previous_ = query.previous_;
  (query.previous_ != nullptr ? query.previous_->next_ : entries_[query.statement_->id].first_waiting) = query.next_;
  query.next_ = query.previous_ = nullptr;
}

}  // namespace sluice::sql::postgres
