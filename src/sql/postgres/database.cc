#include "sql/postgres/database.h"

#include <algorithm>
#include <array>

#include "sql/parameters.h"
#include "sql/postgres/describe.h"
#include "sql/postgres/may_fly.h"
#include "sql/postgres/parallel_cursor.h"
#include "sql/postgres/parameter_types.h"
#include "sql/postgres/session_reset.h"
#include "sql/postgres/staging.h"
#include "sql/postgres/transaction.h"
#include "sql/postgres/types.h"
#include "sql/tokens.h"

namespace sluice::sql::postgres {
namespace {

constexpr std::size_t most_parameters = 65535;  // Bind counts them in 16 bits
constexpr Duration prepare_patience = 30s;

// Whether the statement begins or ends a transaction. It must not, because it does not own its transaction.
bool controls_transaction(std::string_view sql) {
  constexpr std::array<std::string_view, 8> words{"begin",    "start", "commit",    "end",
                                                  "rollback", "abort", "savepoint", "release"};
  const Tokens tokens(sql);
  return std::ranges::any_of(words, [&](std::string_view word) { return tokens.is_word(0, word); }) ||
         (tokens.is_word(0, "prepare") && tokens.is_word(1, "transaction"));
}

}  // namespace

Database::Database(core::Reactor& reactor, Options options) : pool_(reactor, std::move(options)) {
  ping_.text = "SELECT 1";
  ping_.columns.push_back({"?column?", builtin_type(23), 23});
  ping_.one_row = true;
}

core::Task<Result<std::unique_ptr<Cursor>>> Database::run(std::unique_ptr<Query> query) {
  while (!query->advance()) co_await query->progress();
  if (query->failed()) co_return std::unexpected(std::move(query->error()));
  co_return std::move(query);
}

core::Task<Result<std::unique_ptr<Cursor>>> Database::run(std::unique_ptr<ParallelCursor> cursor) {
  auto started = co_await cursor->start();
  if (!started) co_return std::unexpected(std::move(started.error()));
  co_return std::move(cursor);
}

core::Async<Result<std::unique_ptr<Cursor>>> Database::query(const Statement& statement,
                                                             std::span<const Argument> arguments,
                                                             const QueryOptions& options) {
  SLUICE_ASSERT(arguments.size() == statement.parameters.size());
  if (statement.parallel) [[unlikely]] {
    return run(std::make_unique<ParallelCursor>(pool_, statement, arguments, options));
  }
  const bool alone = pool_.prefers_exclusive(statement) || pool_.server_stops_before(options.deadline);
  const auto use = alone ? Query::Use::exclusive : Query::Use::shared;
  return run(std::unique_ptr<Query>(new Query(pool_, statement, arguments, options, use)));
}

std::unique_ptr<sql::Transaction> Database::begin(const TransactionOptions& options) {
  return std::make_unique<Transaction>(pool_, options);
}

std::unique_ptr<sql::Staging> Database::stage(const SetPlan& plan, const TransactionOptions& options) {
  return std::make_unique<Staging>(pool_, plan, options);
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

core::Task<Result<Statement>> Database::prepare(std::string_view text, std::span<const Parameter> declared) {
  return prepare(text, declared, true);
}

// Passes `reads` as false: the transaction resets the session in any case.
core::Task<Result<Statement>> Database::prepare_writing(std::string_view text, std::span<const Parameter> declared) {
  return prepare(text, declared, false);
}

core::Task<Result<Statement>> Database::prepare(std::string_view text, std::span<const Parameter> declared,
                                                bool reads) {
  const std::string source(text);
  auto parsed = parse_parameters(source, PlaceholderStyle::dollar);
  if (!parsed) co_return std::unexpected(std::move(parsed.error()));
  if (parsed->names.size() > most_parameters) {
    co_return std::unexpected(Error{Failure::statement, {}, "a statement takes at most 65535 parameters", 0});
  }
  if (controls_transaction(parsed->text)) {
    co_return std::unexpected(Error{Failure::statement, {}, "a statement may not begin or end a transaction", 0});
  }
  Statement statement;
  for (const std::string& name : parsed->names) {
    const auto same =
        std::find_if(declared.begin(), declared.end(), [&](const Parameter& p) { return p.name == name; });
    statement.parameters.push_back({name, same == declared.end() ? std::nullopt : same->declared});
  }

  Query conversation(pool_, pool_.reactor().now() + prepare_patience);
  while (!conversation.advance()) co_await conversation.progress();
  if (conversation.failed()) co_return std::unexpected(std::move(conversation.error()));
  auto typed = co_await describe_typed(conversation, source, *parsed, statement.parameters);
  if (!typed) co_return std::unexpected(std::move(typed.error()));
  Description& description = typed->description;
  TypeCatalog types;  // a new catalog, because types may have been altered since the last statement
  if (auto resolved = co_await resolve_types(conversation, types, description.columns); !resolved) {
    co_return std::unexpected(std::move(resolved.error()));
  }
  for (const std::uint32_t oid : description.parameters) {
    auto type = co_await resolve_type(conversation, types, oid);
    if (!type) co_return std::unexpected(std::move(type.error()));
    statement.described.push_back(std::move(*type));
  }
  std::vector<std::uint32_t> oids = description.parameters;
  statement.has_composite_parameters = !types.check_of(oids).empty();
  for (const Column& column : description.columns) oids.push_back(column.type_id);
  statement.type_check = types.check_of(std::move(oids));
  if (reads && pool_.options().prepared) {  // behind a pooler, the pooler resets the session
    const Instant now = pool_.reactor().now();
    if (!harmless_.has_all(parsed->text, now)) {
      const auto may = co_await may_change_session(conversation, parsed->text);
      if (!may) co_return std::unexpected(may.error());
      statement.may_change_session = *may;
      if (!*may) harmless_.add(parsed->text, now);
    }
  }
  statement.parameter_types = std::move(typed->types);
  statement.described_types = std::move(description.parameters);
  statement.columns = std::move(description.columns);
  statement.may_fly = !reads && may_fly(parsed->text, !statement.columns.empty());
  statement.text = std::move(parsed->text);
  give_id(statement);
  co_return statement;
}

}  // namespace sluice::sql::postgres
