#include "sql/postgres/describe.h"

#include <optional>
#include <string>
#include <utility>

#include "sql/postgres/messages.h"
#include "sql/postgres/server_error.h"

namespace sluice::sql::postgres {
namespace {

constexpr Duration catalog_timeout = 10s;

core::Task<Result<void>> look_up(Query& conversation, TypeCatalog& types) {
  Connection& connection = conversation.connection();
  write_query(connection.out(), catalog_query(types.missing()));
  conversation.expect_answer();
  std::vector<CatalogRow> rows;
  const auto refused = co_await conversation.read_answer([&rows](const Message& message) {
    if (message.type != 'D') return true;
    Field fields[7];
    auto row = cut_row(message.payload, 7, fields) ? parse_catalog_row(fields) : std::nullopt;
    if (row) rows.push_back(std::move(*row));
    return row.has_value();
  });
  if (!refused) co_return std::unexpected(refused.error());
  if (const auto& error = *refused) {
    co_return std::unexpected(Error{Failure::statement, error->sqlstate, "looking up types: " + error->message, 0});
  }
  types.add(rows);
  co_return Result<void>{};
}

}  // namespace

core::Task<Result<Description>> describe(Query& conversation, std::string_view sql,
                                         std::span<const std::uint32_t> types) {
  Description description;
  Connection& connection = conversation.connection();
  write_parse(connection.out(), {}, sql, types);
  write_describe_statement(connection.out(), {});
  write_sync(connection.out());
  conversation.expect_answer();
  const auto refused = co_await conversation.read_answer([&description](const Message& message) {
    if (message.type == 't') {
      auto parameters = parse_parameter_description(message.payload);
      if (parameters) description.parameters = std::move(*parameters);
      return parameters.has_value();
    }
    if (message.type != 'T') return true;  // ParseComplete, NoData
    const auto fields = parse_row_description(message.payload);
    if (!fields) return false;
    for (const FieldDescription& field : *fields) {
      description.columns.push_back({std::string(field.name), nullptr, field.type});
    }
    return true;
  });
  if (!refused) co_return std::unexpected(refused.error());
  if (const auto& error = *refused) {
    const auto failure = means_outage(error->sqlstate) ? Failure::unavailable : Failure::statement;
    co_return std::unexpected(Error{failure, error->sqlstate, error->message, error->position});
  }
  co_return description;
}

core::Task<Result<TypePtr>> resolve_type(Query& conversation, TypeCatalog& types, std::uint32_t oid) {
  TypePtr type = types.find(oid);
  for (; !type; type = types.find(oid)) {
    if (auto looked_up = co_await look_up(conversation, types); !looked_up) {
      co_return std::unexpected(std::move(looked_up.error()));
    }
  }
  co_return type;
}

core::Task<Result<void>> resolve_types(Query& conversation, TypeCatalog& types, std::vector<Column>& columns) {
  for (Column& column : columns) {
    auto type = co_await resolve_type(conversation, types, column.type_id);
    if (!type) co_return std::unexpected(std::move(type.error()));
    column.type = std::move(*type);
  }
  co_return Result<void>{};
}

core::Task<void> look_up_columns(Pool& pool, StatementId id, std::vector<Column> columns, bool types_changed) {
  Result<void> resolved;
  std::string type_check;
  {
    Query conversation(pool, pool.reactor().now() + catalog_timeout);
    while (!conversation.advance()) co_await conversation.progress();
    if (conversation.failed()) {
      resolved = std::unexpected(std::move(conversation.error()));
    } else {
      TypeCatalog types;  // a new catalog, because the database's own types may have changed, too
      resolved = co_await resolve_types(conversation, types, columns);
      std::vector<std::uint32_t> oids;
      for (const Column& column : columns) oids.push_back(column.type_id);
      if (resolved) type_check = types.check_of(std::move(oids));
    }
  }
  pool.column_lists().found(id, types_changed, resolved, std::move(columns), std::move(type_check));
}

}  // namespace sluice::sql::postgres
