#include "sql/postgres/database.h"

#include <algorithm>
#include <optional>

#include "sql/parameters.h"
#include "sql/postgres/messages.h"

namespace sluice::sql::postgres {
namespace {

constexpr std::size_t most_parameters = 65535;  // Bind counts them in 16 bits
constexpr Duration prepare_patience = 30s;

Error malformed() { return {Failure::lost, {}, "the server sent a malformed message", 0}; }

}  // namespace

// What the server says of a statement.
struct Database::Description {
  std::vector<std::uint32_t> parameters;
  struct Column {
    std::string name;
    std::uint32_t type;
  };
  std::vector<Column> columns;
};

Database::Database(core::Reactor& reactor, Options options) : pool_(reactor, std::move(options)) {
  ping_.id = unnamed_statement;
  ping_.text = "SELECT 1";
  ping_.columns.push_back({"?column?", builtin_type(23)});
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

core::Task<Result<void>> Database::describe(Query& conversation, std::string_view sql, Description& description) {
  Connection& connection = conversation.connection();
  write_parse(connection.out(), {}, sql);
  write_describe_statement(connection.out(), {});
  write_sync(connection.out());
  connection.expect_answer(conversation);
  std::optional<Error> refused;
  for (;;) {
    auto message = co_await conversation.message();
    if (!message) co_return std::unexpected(std::move(message.error()));
    switch (message->type) {
      case 'E': {
        const auto notice = parse_notice(message->payload);
        if (!notice) co_return std::unexpected(malformed());
        const ServerError error(*notice);
        const bool server_is_away = error.sqlstate.starts_with("53") || error.sqlstate.starts_with("57P");
        refused = {server_is_away ? Failure::unavailable : Failure::statement, error.sqlstate, error.message,
                   error.position};
        break;
      }
      case 't': {
        auto types = parse_parameter_description(message->payload);
        if (!types) co_return std::unexpected(malformed());
        description.parameters = std::move(*types);
        break;
      }
      case 'T': {
        const auto fields = parse_row_description(message->payload);
        if (!fields) co_return std::unexpected(malformed());
        for (const FieldDescription& field : *fields) {
          description.columns.push_back({std::string(field.name), field.type});
        }
        break;
      }
      case 'Z':
        if (refused) co_return std::unexpected(std::move(*refused));
        co_return Result<void>{};
      default: break;  // ParseComplete, NoData
    }
  }
}

core::Task<Result<void>> Database::look_up_types(Query& conversation) {
  Connection& connection = conversation.connection();
  write_query(connection.out(), catalog_query(types_.missing()));
  connection.expect_answer(conversation);
  std::vector<CatalogRow> rows;
  std::optional<Error> refused;
  for (;;) {
    auto message = co_await conversation.message();
    if (!message) co_return std::unexpected(std::move(message.error()));
    if (message->type == 'D') {
      Field fields[7];
      const bool fits = cut_row(message->payload, 7, fields);
      auto row = fits ? parse_catalog_row(fields) : std::nullopt;
      if (!row) co_return std::unexpected(malformed());
      rows.push_back(std::move(*row));
    } else if (message->type == 'E') {
      const auto notice = parse_notice(message->payload);
      if (!notice) co_return std::unexpected(malformed());
      const ServerError error(*notice);
      refused = {Failure::statement, error.sqlstate, "looking up types: " + error.message, 0};
    } else if (message->type == 'Z') {
      if (refused) co_return std::unexpected(std::move(*refused));
      types_.add(rows);
      co_return Result<void>{};
    }
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
    const auto same = std::find_if(declared.begin(), declared.end(), [&](const Parameter& p) { return p.name == name; });
    statement.parameters.push_back({name, same == declared.end() ? std::nullopt : same->declared});
  }

  Query conversation(pool_, pool_.reactor().now() + prepare_patience);
  while (!conversation.advance()) co_await conversation.progress();
  if (conversation.failed()) co_return std::unexpected(std::move(conversation.error()));
  Description description;
  if (auto described = co_await describe(conversation, parsed->text, description); !described) {
    Error error = std::move(described.error());
    if (error.position != 0) {
      const std::size_t byte = byte_offset(parsed->text, error.position);
      error.position = character_position(source, parsed->source_offset(static_cast<std::uint32_t>(byte)));
    }
    co_return std::unexpected(std::move(error));
  }
  if (description.parameters.size() != statement.parameters.size()) co_return std::unexpected(malformed());
  for (const Description::Column& column : description.columns) {
    TypePtr type = types_.find(column.type);
    while (!type) {
      if (auto looked_up = co_await look_up_types(conversation); !looked_up) {
        co_return std::unexpected(std::move(looked_up.error()));
      }
      type = types_.find(column.type);
    }
    statement.columns.push_back({column.name, std::move(type)});
  }
  statement.text = std::move(parsed->text);
  co_return statement;
}

}  // namespace sluice::sql::postgres
