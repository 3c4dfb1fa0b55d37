#include "sql/postgres/database.h"

#include <algorithm>

#include "sql/parameters.h"
#include "sql/postgres/describe.h"

namespace sluice::sql::postgres {
namespace {

constexpr std::size_t most_parameters = 65535;  // Bind counts them in 16 bits
constexpr Duration prepare_patience = 30s;

}  // namespace

Database::Database(core::Reactor& reactor, Options options) : pool_(reactor, std::move(options)) {
  ping_.id = unnamed_statement;
  ping_.text = "SELECT 1";
  ping_.columns.push_back({"?column?", builtin_type(23), 23});
  ping_.one_row = true;
}

core::Task<Result<std::unique_ptr<Cursor>>> Database::run(std::unique_ptr<Query> query) {
  while (!query->advance()) co_await query->progress();
  if (query->failed()) co_return std::unexpected(std::move(query->error()));
  co_return std::move(query);
}

core::Async<Result<std::unique_ptr<Cursor>>> Database::query(const Statement& statement,
                                                             std::span<const Argument> arguments,
                                                             const QueryOptions& options) {
  SLUICE_ASSERT(arguments.size() == statement.parameters.size());
  const auto use = pool_.prefers_exclusive(statement) ? Query::Use::exclusive : Query::Use::shared;
  return run(std::unique_ptr<Query>(new Query(pool_, statement, arguments, options, use)));
}

core::Task<Result<void>> Database::ping(Instant deadline) {
  auto cursor = co_await query(ping_, {}, {deadline});
  if (!cursor) co_return std::unexpected(std::move(cursor.error()));
  for (;;) {
    auto block = co_await (*cursor)->next();
    if (!block) co_return std::unexpected(std::move(block.error()));
    if (block->last) co_return Result<void>{};
  }
}

core::Task<Result<Statement>> Database::prepare(std::string_view text, std::uint32_t id,
                                                std::span<const Parameter> declared) {
  const std::string source(text);
  auto parsed = parse_parameters(source, PlaceholderStyle::dollar);
  if (!parsed) co_return std::unexpected(std::move(parsed.error()));
  if (parsed->names.size() > most_parameters) {
    co_return std::unexpected(Error{Failure::statement, {}, "a statement takes at most 65535 parameters", 0});
  }
  Statement statement;
  statement.id = id;
  for (const std::string& name : parsed->names) {
    const auto same =
        std::find_if(declared.begin(), declared.end(), [&](const Parameter& p) { return p.name == name; });
    statement.parameters.push_back({name, same == declared.end() ? std::nullopt : same->declared});
  }

  Query conversation(pool_, pool_.reactor().now() + prepare_patience);
  while (!conversation.advance()) co_await conversation.progress();
  if (conversation.failed()) co_return std::unexpected(std::move(conversation.error()));
  auto description = co_await describe(conversation, parsed->text);
  if (!description) {
    Error error = std::move(description.error());
    if (error.position != 0) {
      const std::size_t byte = byte_offset(parsed->text, error.position);
      error.position = character_position(source, parsed->source_offset(static_cast<std::uint32_t>(byte)));
    }
    co_return std::unexpected(std::move(error));
  }
  if (description->parameters.size() != statement.parameters.size()) {
    co_return std::unexpected(Error{Failure::lost, {}, "the server counts the statement's parameters differently", 0});
  }
  if (auto resolved = co_await resolve_types(conversation, types_, description->columns); !resolved) {
    co_return std::unexpected(std::move(resolved.error()));
  }
  statement.columns = std::move(description->columns);
  statement.text = std::move(parsed->text);
  co_return statement;
}

}  // namespace sluice::sql::postgres
