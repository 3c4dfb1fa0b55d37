#include "sql/sqlite/column_lists.h"

#include <algorithm>

namespace sluice::sql::sqlite {
namespace {

bool are_named(std::span<const Column> columns, std::span<const std::string> names) {
  return std::ranges::equal(columns, names, {}, &Column::name);
}

}  // namespace

std::span<const Column> ColumnLists::find(const Statement& statement, std::span<const std::string> names) {
  if (are_named(statement.columns, names)) return statement.columns;
  for (const List& list : lists_) {
    if (list.statement == statement.id && are_named(list.columns, names)) return list.columns;
  }
  // Remove the lists of earlier statements with the same slot.
  std::erase_if(lists_, [&](const List& list) {
    return list.statement.slot == statement.id.slot && list.statement != statement.id;
  });
  return lists_.emplace_back(List{statement.id, columns_of(names)}).columns;
}

std::vector<Column> columns_of(std::span<const std::string> names) {
  static const auto dynamic = std::make_shared<const Type>(Type{Form::dynamic, ',', nullptr, {}});
  std::vector<Column> columns;
  columns.reserve(names.size());
  for (const std::string& name : names) columns.push_back({name, dynamic});
  return columns;
}

}  // namespace sluice::sql::sqlite
