#include "sql/postgres/database.h"

#include <algorithm>

#include "sql/parameters.h"
#include "sql/postgres/describe.h"
#include "sql/postgres/parallel_cursor.h"
#include "sql/postgres/session_reset.h"
#include "sql/postgres/staging.h"
#include "sql/postgres/transaction.h"

namespace sluice::sql::postgres {
namespace {

constexpr std::size_t most_parameters = 65535;  // Bind counts them in 16 bits
constexpr Duration prepare_patience = 30s;
constexpr std::uint32_t text_oid = 25;

std::uint32_t oid_of(ParameterType type) {
  switch (type) {
    case ParameterType::integer:
      return 20;  // int8
    case ParameterType::real:
      return 701;  // float8
    case ParameterType::boolean:
      return 16;
    case ParameterType::text:
      break;
  }
  return text_oid;
}

bool is_blank(char byte) { return byte == ' ' || (byte >= '\t' && byte <= '\r'); }

// Whether the statement itself says what the placeholder is: $1::text, or CAST($1 AS text).
bool is_cast(std::string_view sql, const ParsedSql::Placeholder& placeholder) {
  std::string_view after = sql.substr(placeholder.end);
  while (!after.empty() && is_blank(after.front())) after.remove_prefix(1);
  if (after.starts_with("::")) return true;
  if (after.size() < 3 || (after[0] | 0x20) != 'a' || (after[1] | 0x20) != 's' || !is_blank(after[2])) return false;
  std::string_view before = sql.substr(0, placeholder.begin);
  const auto skip_blanks = [&] {
    while (!before.empty() && is_blank(before.back())) before.remove_suffix(1);
  };
  skip_blanks();
  if (!before.ends_with('(')) return false;
  before.remove_suffix(1);
  skip_blanks();
  if (before.size() < 4) return false;
  constexpr std::string_view word = "cast";
  return std::equal(word.begin(), word.end(), before.end() - 4, [](char a, char b) { return a == (b | 0x20); });
}

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
  const bool alone = !options.settings.empty() || pool_.prefers_exclusive(statement);
  const auto use = alone ? Query::Use::exclusive : Query::Use::shared;
  return run(std::unique_ptr<Query>(new Query(pool_, statement, arguments, options, use)));
}

TransactionOptions Database::bounded(TransactionOptions options) {
  if (options.deadline == never && pool_.options().statement_timeout_ms != 0) {
    options.deadline = pool_.reactor().now() + std::chrono::milliseconds(pool_.options().wait_ms) +
                       std::chrono::milliseconds(pool_.options().statement_timeout_ms);
  }
  return options;
}

std::unique_ptr<sql::Transaction> Database::begin(const TransactionOptions& options) {
  return std::make_unique<Transaction>(pool_, bounded(options));
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

// A parameter that PostgreSQL takes for text only because nothing tells it otherwise (`SELECT :id`) gets the type that
// the configuration declares. Where that is refused (`lower(:id)`, `name = :id`), text it is.
core::Task<Result<void>> Database::apply_declared(Query& conversation, const ParsedSql& parsed, Statement& statement,
                                                  Description& description) {
  std::vector<std::uint32_t> wanted(statement.parameters.size(), 0);
  std::vector<std::size_t> candidates;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const std::uint32_t type = oid_of(statement.parameters[i].declared.value_or(ParameterType::text));
    if (type == text_oid || description.parameters[i] != text_oid) continue;
    const std::string placeholder = "$" + std::to_string(i + 1);
    if (std::any_of(parsed.placeholders.begin(), parsed.placeholders.end(), [&](const auto& one) {
          return std::string_view(parsed.text).substr(one.begin, one.end - one.begin) == placeholder &&
                 is_cast(parsed.text, one);
        })) {
      continue;
    }
    wanted[i] = type;
    candidates.push_back(i);
  }
  if (candidates.empty()) co_return Result<void>{};

  // All of them; where that is refused, one after the other, each with those that have been taken.
  std::vector<std::uint32_t> types = wanted;
  for (std::size_t next = 0;;) {
    auto described = co_await describe(conversation, parsed.text, types);
    if (!described && described.error().failure != Failure::statement) {
      co_return std::unexpected(std::move(described.error()));
    }
    if (described && described->parameters.size() == types.size()) {
      statement.parameter_types = types;
      description = std::move(*described);
      if (next == 0) co_return Result<void>{};
    }
    if (next == candidates.size() || candidates.size() == 1) co_return Result<void>{};
    types = statement.parameter_types;
    types.resize(wanted.size(), 0);
    types[candidates[next]] = wanted[candidates[next]];
    ++next;
  }
}

core::Task<Result<Statement>> Database::prepare(std::string_view text, std::uint32_t id,
                                                std::span<const Parameter> declared) {
  return prepare(text, id, declared, true);
}

// Its transaction resets the session whatever it does.
core::Task<Result<Statement>> Database::prepare_writing(std::string_view text, std::uint32_t id,
                                                        std::span<const Parameter> declared) {
  return prepare(text, id, declared, false);
}

core::Task<Result<Statement>> Database::prepare(std::string_view text, std::uint32_t id,
                                                std::span<const Parameter> declared, bool reads) {
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
  auto description = co_await describe(conversation, parsed->text, {});
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
  if (auto applied = co_await apply_declared(conversation, *parsed, statement, *description); !applied) {
    co_return std::unexpected(std::move(applied.error()));
  }
  if (auto resolved = co_await resolve_types(conversation, types_, description->columns); !resolved) {
    co_return std::unexpected(std::move(resolved.error()));
  }
  if (reads && pool_.options().prepared) {  // behind a pooler the session is the pooler's matter
    const auto may = co_await may_change_session(conversation, parsed->text);
    if (!may) co_return std::unexpected(may.error());
    statement.may_change_session = *may;
  }
  statement.described_types = std::move(description->parameters);
  statement.columns = std::move(description->columns);
  statement.text = std::move(parsed->text);
  co_return statement;
}

}  // namespace sluice::sql::postgres
