#include "app/routes/endpoint/read_plan.h"

#include <utility>

namespace sluice::app {

core::Task<sql::Result<std::vector<std::string>>> read_plan(sql::Database& database, std::string text,
                                                            std::vector<sql::Parameter> declared,
                                                            std::span<const sql::Argument> arguments,
                                                            sql::QueryOptions options) {
  auto statement = co_await database.prepare(text, declared);
  if (!statement) co_return std::unexpected(statement.error());
  // Without arguments, all are NULL.
  const std::vector<sql::Argument> nothing(arguments.empty() ? statement->parameters.size() : 0);
  if (arguments.empty()) arguments = nothing;
  co_return co_await read_plan(database, std::move(*statement), arguments, options);
}

// The last column of each row has the text in the plans of both databases.
core::Task<sql::Result<std::vector<std::string>>> read_plan(sql::Database& database, sql::Statement statement,
                                                            std::span<const sql::Argument> arguments,
                                                            sql::QueryOptions options) {
  if (!statement.id.is_named()) database.give_id(statement);
  auto cursor = co_await database.query(statement, arguments, options);
  if (!cursor) co_return std::unexpected(cursor.error());
  std::vector<std::string> lines;
  for (bool last = false; !last;) {
    const auto block = co_await (*cursor)->next();
    if (!block) co_return std::unexpected(block.error());
    last = block->last;
    for (std::size_t i = 0; i < block->rows; ++i) lines.emplace_back(block->row(i).back().view());
  }
  co_return lines;
}

}  // namespace sluice::app
