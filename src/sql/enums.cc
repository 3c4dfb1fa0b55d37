#include "sql/enums.h"

#include <cstdlib>
#include <utility>

namespace sluice::sql {

core::Task<Result<std::vector<EnumType>>> read_enums(Database& database) {
  auto statement = co_await database.prepare(
      "SELECT t.oid::int8, t.typarray::int8, format_type(t.oid, NULL), l.enumlabel::text"
      " FROM pg_type t JOIN pg_enum l ON l.enumtypid = t.oid ORDER BY t.oid, l.enumsortorder",
      {});
  if (!statement) co_return std::unexpected(std::move(statement.error()));
  auto cursor = co_await database.query(*statement, {}, {});
  if (!cursor) co_return std::unexpected(std::move(cursor.error()));
  std::vector<EnumType> all;
  const auto oid = [](const Field& field) {
    return static_cast<std::uint32_t>(std::strtoul(std::string(field.view()).c_str(), nullptr, 10));
  };
  for (bool last = false; !last;) {
    auto block = co_await (*cursor)->next();
    if (!block) co_return std::unexpected(std::move(block.error()));
    last = block->last;
    for (std::size_t i = 0; i < block->rows; ++i) {
      const auto row = block->row(i);
      if (all.empty() || all.back().oid != oid(row[0])) {
        all.push_back({.oid = oid(row[0]), .array = oid(row[1]), .name = std::string(row[2].view()), .labels = {}});
      }
      all.back().labels.emplace_back(row[3].view());
    }
  }
  co_return all;
}

}  // namespace sluice::sql
