#include "api/table_sql.h"

#include <string>

#include <gtest/gtest.h>

#include "sql/set/set.h"

namespace sluice::api {
namespace {

class TableSqlTest : public ::testing::Test {
 public:
  TableSqlTest() {
    options.table.value = "films";
    ColumnOptions id;
    id.key = true;
    id.from = Located<std::string>("path.id");
    ColumnOptions name;
    name.required = true;
    options.columns = {{{"id"}, id}, {{"name"}, name}, {{"sto\"ck"}, {}}};
    table.name = "\"films\"";
    table.columns = {{.name = "id", .type = "integer", .collation = {}, .default_value = {}},
                     {.name = "name", .type = "text", .collation = {}, .default_value = {}},
                     {.name = "sto\"ck", .type = "numeric(4,1)", .collation = {}, .default_value = "7 + 1"}};
  }
  std::expected<TableSql, std::string> made(http::Method method, sql::Dialect dialect = sql::Dialect::sqlite) const {
    return make_table_sql(method, options, *http::Pattern::parse("/films/{id}"), dialect, table);
  }

  MethodOptions options;
  sql::Table table;
};

TEST_F(TableSqlTest, PostInserts) {
  options.returning.value = "id, name";
  EXPECT_EQ(made(http::Method::post)->sql,
            "INSERT INTO \"films\" (\"id\", \"name\", \"sto\"\"ck\") VALUES (:set_id, :set_name, CASE WHEN "
            ":has_set_sto_34_ck THEN :set_sto_34_ck ELSE (7 + 1) END) RETURNING id, name");
  EXPECT_EQ(made(http::Method::post, sql::Dialect::postgres)->sql,
            "INSERT INTO \"films\" (\"id\", \"name\", \"sto\"\"ck\") VALUES (CAST(:set_id AS integer), "
            "CAST(:set_name AS text), CASE WHEN CAST(:has_set_sto_34_ck AS boolean) THEN CAST(:set_sto_34_ck AS "
            "numeric(4,1)) ELSE (7 + 1) END) RETURNING id, name");
}

TEST_F(TableSqlTest, PatchKeepsWhatIsNotNamed) {
  options.returning.value = "id";
  const auto sql = made(http::Method::patch);
  EXPECT_EQ(sql->sql,
            "UPDATE \"films\" SET \"name\" = :set_name, \"sto\"\"ck\" = :set_sto_34_ck WHERE \"id\" = :set_id "
            "RETURNING id");
  EXPECT_EQ(sql->update_first, "");
  EXPECT_EQ(sql->patch->update("10"), "UPDATE \"films\" SET \"name\" = :set_name WHERE \"id\" = :set_id RETURNING id");
  EXPECT_EQ(sql->patch->update("01"),
            "UPDATE \"films\" SET \"sto\"\"ck\" = :set_sto_34_ck WHERE \"id\" = :set_id RETURNING id");
  EXPECT_EQ(sql->patch->read, "SELECT id FROM \"films\" WHERE \"id\" = :set_id");
  EXPECT_FALSE(sql->patch->assignments[0].optional) << "it is required";
  EXPECT_TRUE(sql->patch->assignments[1].optional);
}

TEST_F(TableSqlTest, UpdatesRaiseTheVersion) {
  table.columns.push_back({.name = "revision", .type = "integer", .kind = sql::ColumnKind::integer});
  const auto pattern = *http::Pattern::parse("/films/{id}");
  const auto sql_of = [&](http::Method method) {
    return make_table_sql(method, options, pattern, sql::Dialect::sqlite, table, "revision");
  };
  const std::string raised = "SET \"revision\" = coalesce(\"revision\", 0) + 1, \"name\" = :set_name";
  EXPECT_TRUE(sql_of(http::Method::patch)->patch->update("10").contains(raised));
  EXPECT_TRUE(sql_of(http::Method::put)->update_first.contains(", \"revision\" = coalesce(\"revision\", 0) + 1 WHERE"));
  options.columns.push_back({{"revision"}, {}});  // the body's value is for a new row
  EXPECT_TRUE(sql_of(http::Method::patch)->patch->update("10").contains(raised));
  EXPECT_FALSE(sql_of(http::Method::put)->update_first.contains("set_revision"));
  EXPECT_TRUE(sql_of(http::Method::put)->sql.contains("set_revision"));
}

TEST(NextVersion, DependsOnTheType) {
  const auto postgres = [](std::string type) {
    return next_version(sql::Dialect::postgres, {.name = "v", .type = std::move(type)});
  };
  EXPECT_EQ(postgres("bigint"), "coalesce(\"v\", 0) + 1");
  EXPECT_EQ(postgres("timestamp(2) without time zone"),
            "greatest(CAST(clock_timestamp() AS timestamp(2) without time zone), \"v\" + interval '0.01 seconds')");
  EXPECT_TRUE(postgres("timestamp(0) with time zone").contains("'1 second'"));
  EXPECT_TRUE(postgres("timestamp with time zone").contains("'0.000001 seconds'"));
  for (const char* type : {"text", "date", "uuid", "bytea"}) EXPECT_EQ(postgres(type), "") << type;
  const auto sqlite = [](std::string type) {
    const auto kind = sql::sqlite_column_kind(type);
    return next_version(sql::Dialect::sqlite, {.name = "v", .type = std::move(type), .kind = kind});
  };
  EXPECT_EQ(sqlite("INT"), "coalesce(\"v\", 0) + 1");
  EXPECT_TRUE(sqlite("DateTime").contains("strftime"));
  for (const char* type : {"TEXT", "DATE", "UUID", "BLOB", "REAL"}) EXPECT_EQ(sqlite(type), "") << type;
}

TEST_F(TableSqlTest, PutReplacesAndElseInserts) {
  const auto sql = made(http::Method::put);
  EXPECT_TRUE(sql->sql.starts_with("INSERT INTO \"films\" (")) << sql->sql;
  EXPECT_EQ(
      sql->update_first,
      "UPDATE \"films\" SET \"name\" = :set_name, \"sto\"\"ck\" = CASE WHEN :has_set_sto_34_ck THEN :set_sto_34_ck "
      "ELSE (7 + 1) END WHERE \"id\" = :set_id");
}

TEST_F(TableSqlTest, ATablesOwnConflictClausesDoNotHold) {
  table.or_abort = " OR ABORT";
  EXPECT_TRUE(made(http::Method::post)->sql.starts_with("INSERT OR ABORT INTO \"films\" ("));
  EXPECT_TRUE(made(http::Method::patch)->sql.starts_with("UPDATE OR ABORT \"films\" SET "));
  EXPECT_TRUE(made(http::Method::put)->update_first.starts_with("UPDATE OR ABORT \"films\" SET "));
}

TEST_F(TableSqlTest, DeleteFindsTheRow) {
  options.columns.resize(1);
  EXPECT_EQ(made(http::Method::delete_)->sql, "DELETE FROM \"films\" WHERE \"id\" = :set_id");
}

TEST_F(TableSqlTest, WhatTheConfigurationDoesWrongIsSaid) {
  options.columns[0].value.key = false;
  EXPECT_TRUE(made(http::Method::post));
  for (const auto method : {http::Method::put, http::Method::patch, http::Method::delete_}) {
    EXPECT_EQ(made(method).error(), "a key is needed, which says what row is meant: columns.NAME = { key = true }");
  }
  options.columns[0].value.key = true;
  options.columns.resize(1);
  for (const auto method : {http::Method::put, http::Method::patch}) {
    EXPECT_EQ(made(method).error(), "there is no column to change besides the keys");
  }
}

TEST_F(TableSqlTest, ParametersComeFromTheirColumns) {
  const auto pattern = *http::Pattern::parse("/films/{id}");
  const auto id = table_source("set_id", options, pattern);
  ASSERT_TRUE(id);
  EXPECT_EQ(id->from, From::path);
  EXPECT_FALSE(id->asks_presence);
  const auto stock = table_source("set_sto_34_ck", options, pattern);
  ASSERT_TRUE(stock);
  EXPECT_EQ(stock->from, From::body);
  EXPECT_EQ(stock->key, "sto\"ck");
  EXPECT_TRUE(table_source("has_set_sto_34_ck", options, pattern)->asks_presence);
  EXPECT_FALSE(table_source("id", options, pattern));
}

Named<ColumnOptions> column(std::string name, sql::ParameterType type) {
  Named<ColumnOptions> made;
  made.name.value = std::move(name);
  made.value.type = Located<sql::ParameterType>(type);
  return made;
}

TEST(TableSource, WhetherTheBodyHasAFieldIsNotCheckedAsTheFieldIs) {
  MethodOptions options;
  options.columns.push_back(column("score", sql::ParameterType::real));
  options.columns[0].value.trim = true;
  options.columns[0].value.min = Located<double>(0);
  const auto pattern = *http::Pattern::parse("/films");
  const auto value = table_source(sql::shared_parameter("score"), options, pattern);
  ASSERT_TRUE(value);
  EXPECT_TRUE(value->checked && value->trim);
  EXPECT_FALSE(value->asks_presence);
  const auto presence = table_source(presence_parameter("score"), options, pattern);
  ASSERT_TRUE(presence);
  EXPECT_TRUE(presence->asks_presence);
  EXPECT_FALSE(presence->checked || presence->trim || presence->required);
  EXPECT_FALSE(table_source("score", options, pattern)) << "a parameter of the configuration's own";

  Binder binder;
  std::vector<sql::Argument> bound;
  const http::Exchange exchange{};
  const Value number{Value::Kind::number, "1.5"};
  ASSERT_TRUE(binder.bind({&*presence, 1}, exchange, {&number, 1}, bound));
  EXPECT_EQ(bound[0].text, "true");
}

}  // namespace
}  // namespace sluice::api
