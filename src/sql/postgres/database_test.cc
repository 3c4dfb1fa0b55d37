#include "sql/postgres/database.h"

#include <functional>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/sleep.h"
#include "net/tls/test_certificates.h"
#include "sql/encode/encoder.h"
#include "sql/postgres/cluster.h"
#include "sql/postgres/url.h"

namespace sluice::sql::postgres {
namespace {

using core::Task;

// The parts of a result that tests check.
struct Rows {
  const Column* columns = nullptr;  // of all blocks
  std::vector<std::string> names;
  std::vector<Form> forms;
  std::vector<std::vector<std::optional<std::string>>> rows;
  std::size_t blocks = 0;
  std::optional<Error> error;
};

class PostgresTest : public testing::Test {
 public:
  static Options options() {
    auto made = options_from_url(Cluster::shared().url());
    EXPECT_TRUE(made) << made.error();
    // The machine's load must not decide whether requests share connections, or whether they get one.
    made->slow_ms = 60'000;
    made->wait_ms = made->connect_timeout_ms = 20'000;
    return *made;
  }
  void open(Options chosen = options()) {
    database.reset();
    database = std::make_unique<Database>(*reactor, std::move(chosen));
  }
  void SetUp() override {
    Cluster::shared();
    reactor->turn(reactor->now());  // the setup above took time
    open();
  }
  void TearDown() override {
    tasks.cancel();
    database.reset();
  }

  void settle(Duration patience = 20s) {
    const Instant end = reactor->now() + patience;
    while (!tasks.empty() && reactor->now() < end) reactor->turn(reactor->now() + 10ms);
    ASSERT_TRUE(tasks.empty()) << "the loop did not finish";
  }
  void run(Task<void> task, Duration patience = 20s) {
    tasks.spawn(std::move(task));
    settle(patience);
  }
  void turn_for(Duration time) {
    const Instant end = reactor->now() + time;
    while (reactor->now() < end) reactor->turn(end);
  }
  // Turns the loop until `condition` holds. It may be called repeatedly.
  bool turn_until(const std::function<bool()>& condition, Duration patience = 10s) {
    const Instant end = reactor->now() + patience;
    while (!condition()) {
      if (reactor->now() >= end) return false;
      reactor->turn(reactor->now() + 5ms);
    }
    return true;
  }

  Result<Statement> prepare(std::string text, std::vector<Parameter> declared = {}) {
    std::optional<Result<Statement>> result;
    run([](Database& db, std::string sql, std::vector<Parameter> parameters,
           std::optional<Result<Statement>>& into) -> Task<void> {
      into = co_await db.prepare(sql, parameters);
    }(*database, std::move(text), std::move(declared), result));
    return std::move(*result);
  }
  Statement must_prepare(std::string text, bool one_row = false) {
    auto prepared = prepare(std::move(text));
    EXPECT_TRUE(prepared) << prepared.error().message;
    if (!prepared) return {};
    prepared->one_row = one_row;
    return std::move(*prepared);
  }

  static Task<void> collect(sql::Database& db, const Statement& statement,
                            std::vector<std::optional<std::string>> values, Rows& into,
                            QueryOptions query_options = {}) {
    std::vector<Argument> arguments;
    for (const auto& value : values) {
      arguments.push_back({value ? std::optional<std::string_view>(*value) : std::nullopt, ParameterType::text});
    }
    auto cursor = co_await db.query(statement, arguments, query_options);
    if (!cursor) {
      into.error = cursor.error();
      co_return;
    }
    for (;;) {
      auto block = co_await (*cursor)->next();
      if (!block) {
        into.error = block.error();
        co_return;
      }
      if (into.blocks++ == 0) {
        into.columns = block->columns.data();
        for (const Column& column : block->columns) {
          into.names.push_back(column.name);
          into.forms.push_back(column.type->form);
        }
      }
      EXPECT_EQ(block->columns.data(), into.columns);
      for (std::size_t i = 0; i < block->rows; ++i) {
        auto& row = into.rows.emplace_back();
        for (const Field& field : block->row(i)) {
          row.push_back(field.is_null() ? std::nullopt : std::optional(std::string(field.view())));
        }
      }
      if (block->last) co_return;
    }
  }
  Rows fetch(const Statement& statement, std::vector<std::optional<std::string>> values = {}, QueryOptions o = {}) {
    Rows rows;
    run(collect(*database, statement, std::move(values), rows, o));
    return rows;
  }

  std::unique_ptr<core::Reactor> reactor = core::make_epoll_reactor();
  std::unique_ptr<Database> database;
  core::TaskGroup tasks;
};

using Row = std::vector<std::optional<std::string>>;

TEST_F(PostgresTest, StreamsAQuery) {
  const Statement statement =
      must_prepare("SELECT n, n::text || 'x' AS t, NULL::int FROM generate_series(1, :n::int) n");
  ASSERT_EQ(statement.columns.size(), 3u);
  EXPECT_EQ(statement.columns[0].name, "n");
  EXPECT_EQ(statement.columns[0].type->form, Form::number);
  EXPECT_EQ(statement.columns[1].type->form, Form::text);
  ASSERT_EQ(statement.parameters.size(), 1u);
  EXPECT_EQ(statement.parameters[0].name, "n");
  const Rows rows = fetch(statement, {"100000"});
  ASSERT_FALSE(rows.error) << rows.error->message;
  ASSERT_EQ(rows.rows.size(), 100000u);
  EXPECT_GT(rows.blocks, 10u);
  for (std::size_t i = 0; i < rows.rows.size(); ++i) {
    ASSERT_EQ(rows.rows[i], (Row{std::to_string(i + 1), std::to_string(i + 1) + "x", std::nullopt}));
  }
}

TEST_F(PostgresTest, PrepareDescribesParametersColumnsAndForms) {
  Cluster::shared().psql(
      "DROP SCHEMA IF EXISTS forms CASCADE; CREATE SCHEMA forms;"
      "CREATE DOMAIN forms.price AS numeric CHECK (VALUE >= 0);"
      "CREATE DOMAIN forms.prices AS forms.price[];"
      "CREATE TYPE forms.mood AS ENUM ('sad', 'ok');"
      "CREATE TYPE forms.inner_pair AS (a int, p forms.price);"
      "CREATE TYPE forms.pair AS (\"first name\" text, pairs forms.inner_pair[], at timestamptz);"
      "CREATE TABLE forms.dropped (a int, b int, c boolean); ALTER TABLE forms.dropped DROP COLUMN b");
  const Statement s = must_prepare(
      "SELECT 1::forms.price AS a, '{1}'::forms.prices AS b, 'ok'::forms.mood AS c, '{ok}'::forms.mood[] AS d,"
      " NULL::forms.pair AS e, NULL::forms.pair[] AS f, NULL::forms.dropped AS g, '{(0,0),(1,1)}'::box[] AS h,"
      " '1'::oid AS i, '2.5'::money AS j, '{}'::jsonb AS k, true AS l, now() AS m, now()::timestamp AS n,"
      " current_date AS o, '\\x00'::bytea AS p, '[1,2)'::int4range AS q, 1.5::float4 AS r, '{1}'::int[] AS s");
  ASSERT_EQ(s.columns.size(), 19u);
  const auto form = [&](char name) { return s.columns[static_cast<std::size_t>(name - 'a')].type->form; };
  EXPECT_EQ(form('a'), Form::number);
  EXPECT_EQ(form('b'), Form::array);
  EXPECT_EQ(s.columns[1].type->element->form, Form::number);
  EXPECT_EQ(form('c'), Form::text);
  EXPECT_EQ(form('d'), Form::array);
  EXPECT_EQ(s.columns[3].type->element->form, Form::text);
  ASSERT_EQ(form('e'), Form::composite);
  const auto& pair = s.columns[4].type->attributes;
  ASSERT_EQ(pair.size(), 3u);
  EXPECT_EQ(pair[0].name, "first name");
  EXPECT_EQ(pair[1].type->form, Form::array);
  ASSERT_EQ(pair[1].type->element->form, Form::composite);
  EXPECT_EQ(pair[1].type->element->attributes.at(1).type->form, Form::number);
  EXPECT_EQ(pair[2].type->form, Form::timestamp_tz);
  EXPECT_EQ(form('f'), Form::array);
  EXPECT_EQ(s.columns[5].type->element->form, Form::composite);
  ASSERT_EQ(form('g'), Form::composite);
  ASSERT_EQ(s.columns[6].type->attributes.size(), 2u);
  EXPECT_EQ(s.columns[6].type->attributes[1].name, "c");
  EXPECT_EQ(form('h'), Form::array);
  EXPECT_EQ(s.columns[7].type->delimiter, ';');
  EXPECT_EQ(form('i'), Form::text);
  EXPECT_EQ(form('j'), Form::text);
  EXPECT_EQ(form('k'), Form::json);
  EXPECT_EQ(form('l'), Form::boolean);
  EXPECT_EQ(form('m'), Form::timestamp_tz);
  EXPECT_EQ(form('n'), Form::timestamp);
  EXPECT_EQ(form('o'), Form::text);
  EXPECT_EQ(form('p'), Form::text);
  EXPECT_EQ(form('q'), Form::text);
  EXPECT_EQ(form('r'), Form::number);
  EXPECT_EQ(s.columns[18].type->delimiter, ',');
  // The statement also runs with those columns.
  const Rows rows = fetch(s);
  ASSERT_FALSE(rows.error) << rows.error->message;
  EXPECT_EQ(rows.rows.at(0).at(15), "\\x00");
}

TEST_F(PostgresTest, PrepareKeepsDeclaredTypesAndOneParameterPerName) {
  const auto s = prepare("SELECT :b::int + :a::int + :b::int", {{"a", ParameterType::integer}});
  ASSERT_TRUE(s);
  ASSERT_EQ(s->parameters.size(), 2u);
  EXPECT_EQ(s->parameters[0].name, "b");
  EXPECT_FALSE(s->parameters[0].declared);
  EXPECT_EQ(s->parameters[1].declared, ParameterType::integer);
  EXPECT_EQ(fetch(*s, {"10", "1"}).rows, (std::vector<Row>{{"21"}}));
}

std::string json_of(const Statement& statement, const Row& row) {
  std::vector<Field> fields;
  for (const auto& value : row) {
    fields.push_back(value ? Field{value->data(), static_cast<std::uint32_t>(value->size())} : Field{});
  }
  Buffer out;
  Encoder encoder(Format::json, statement.columns, {.object = true});
  encoder.begin(out);
  encoder.rows({statement.columns, fields, 1, true}, out);
  encoder.end(out);
  return std::string(out.view().substr(0, out.size() - 1));  // without the end of the line
}

TEST_F(PostgresTest, ADeclaredParameterHasItsTypeWhereTheStatementGivesItNone) {
  const std::vector<Parameter> declared = {{"id", ParameterType::integer},
                                           {"x", ParameterType::real},
                                           {"on", ParameterType::boolean},
                                           {"t", ParameterType::text}};
  for (const bool named : {true, false}) {
    for (const bool one_row : {true, false}) {
      Options chosen = options();
      chosen.prepared = named;
      chosen.pool_size = 1;
      open(chosen);
      auto s = prepare("SELECT :id AS id, :x AS x, :on AS \"on\", :t AS t, :u AS u", declared);
      ASSERT_TRUE(s) << s.error().message;
      s->one_row = one_row;
      EXPECT_EQ(s->parameter_types, (std::vector<std::uint32_t>{20, 701, 16, 0, 0}));
      for (int i = 0; i < 2; ++i) {
        const Rows rows = fetch(*s, {"5", "2.50", "true", "7", "8"});
        ASSERT_FALSE(rows.error) << rows.error->message;
        EXPECT_EQ(json_of(*s, rows.rows.at(0)), R"({"id":5,"x":2.5,"on":true,"t":"7","u":"8"})");
        // The answer is the same when the statement must be prepared again.
        if (named) (void)fetch(must_prepare("DEALLOCATE ALL", true));
      }
      const Rows null = fetch(*s, {std::nullopt, std::nullopt, std::nullopt, std::nullopt, std::nullopt});
      EXPECT_EQ(json_of(*s, null.rows.at(0)), R"({"id":null,"x":null,"on":null,"t":null,"u":null})");
      const Rows huge = fetch(*s, {"99999999999999999999", "1", "t", "", ""});
      ASSERT_TRUE(huge.error);
      EXPECT_EQ(huge.error->failure, Failure::bad_argument);
    }
  }
}

TEST_F(PostgresTest, ADeclaredParameterKeepsTheTypeThatTheStatementNeeds) {
  const std::vector<Parameter> declared = {{"id", ParameterType::integer}, {"n", ParameterType::integer}};
  auto ask = [&](const std::string& sql, std::vector<std::optional<std::string>> values) {
    const auto s = prepare(sql, declared);
    EXPECT_TRUE(s) << s.error().message;
    if (!s) return std::string();
    const Rows rows = fetch(*s, std::move(values));
    EXPECT_FALSE(rows.error) << rows.error->message;
    return rows.error ? std::string() : json_of(*s, rows.rows.at(0));
  };
  EXPECT_EQ(ask("SELECT relname FROM pg_class WHERE relname = 'pg_class' AND relname::text <> :id", {"5"}),
            R"({"relname":"pg_class"})");
  EXPECT_EQ(ask("SELECT lower(:id) AS a", {"007"}), R"({"a":"007"})");
  EXPECT_EQ(ask("SELECT 1 + :id AS a", {"007"}), R"({"a":8})");
  // A cast in the statement takes precedence.
  EXPECT_EQ(ask("SELECT :id::text AS a", {"007"}), R"({"a":"007"})");
  EXPECT_EQ(ask("SELECT :id :: text AS a, :n AS n", {"007", "008"}), R"({"a":"007","n":8})");
  EXPECT_EQ(ask("SELECT CAST( :id AS text) AS a", {"007"}), R"({"a":"007"})");
  EXPECT_EQ(ask("SELECT :id as cast", {"007"}), R"({"cast":7})");
  // One parameter can have its declared type, and the other cannot.
  EXPECT_EQ(ask("SELECT lower(:id) AS a, :n AS n", {"007", "008"}), R"({"a":"007","n":8})");
  EXPECT_EQ(ask("SELECT :n AS n, lower(:id) AS a", {"008", "007"}), R"({"n":8,"a":"007"})");
  EXPECT_EQ(ask("SELECT lower(:n) AS n, lower(:id) AS a", {"008", "007"}), R"({"n":"008","a":"007"})");
}

TEST_F(PostgresTest, AParameterMayStandFirstWhereItNeedsNoType) {
  struct Case {
    std::string sql;
    std::vector<Parameter> declared;
    std::vector<std::optional<std::string>> values;
    std::string answer;
  };
  const std::string numbers =
      " FROM (VALUES (1::int, 'one'::text, '1 day'::interval), (2, 'two', '2 days')) AS t (id, name, span) ";
  const std::vector<Case> cases = {
      {"SELECT count(*) AS n" + numbers + "WHERE :q IS NULL OR name LIKE '%' || :q || '%'", {}, {"w"}, R"({"n":1})"},
      {"SELECT count(*) AS n" + numbers + "WHERE name LIKE '%' || :q || '%' OR :q IS NULL", {}, {"w"}, R"({"n":1})"},
      {"SELECT count(*) AS n" + numbers + "WHERE :q IS NULL OR id = :q", {}, {"2"}, R"({"n":1})"},
      {"SELECT count(*) AS n" + numbers + "WHERE id = :q OR :q IS NULL", {}, {"2"}, R"({"n":1})"},
      {"SELECT count(*) AS n" + numbers + "WHERE :q IS NULL OR id = :q", {}, {std::nullopt}, R"({"n":2})"},
      {"SELECT count(*) AS n" + numbers + "WHERE :q IS NULL OR span = :q", {}, {"48 hours"}, R"({"n":1})"},
      {"SELECT count(*) AS n" + numbers + "WHERE :q IS NULL OR :q IS NOT NULL AND id = ANY(:q)",
       {},
       {"{1,2}"},
       R"({"n":2})"},
      {"SELECT count(*) AS n" + numbers + "WHERE (:a IS NULL OR id = :a) AND (:b IS NULL OR name = :b)",
       {},
       {"2", "two"},
       R"({"n":1})"},
      {"SELECT :q AS q, count(*) AS n" + numbers + "WHERE id = :q", {}, {"2"}, R"({"q":2,"n":1})"},
      {"SELECT count(*) AS n" + numbers + "WHERE :all IS NOT NULL", {}, {""}, R"({"n":2})"},
      {"SELECT concat(:q, id) AS a" + numbers + "WHERE id = 1 ", {}, {"7"}, R"({"a":"71"})"},
      {"SELECT json_build_object('n', :n) AS a", {{"n", ParameterType::integer}}, {"07"}, R"({"a":{"n" : 7}})"},
      {"SELECT :a + :b AS a",
       {{"a", ParameterType::integer}, {"b", ParameterType::real}},
       {"7", "0.5"},
       R"({"a":7.5})"},
      {"SELECT count(*) AS n" + numbers + "WHERE :q IS NULL OR id >= :q",
       {{"q", ParameterType::integer}},
       {"2"},
       R"({"n":1})"},
      // All parameters have been renumbered several times.
      {"SELECT :a::int AS a, :b AS b, :c AS c, :d::int AS d" + numbers +
           "WHERE :e IS NULL OR :b IS NULL OR id = :b AND :e = name",
       {},
       {"1", "2", "c", "4", "two"},
       R"({"a":1,"b":2,"c":"c","d":4})"},
  };
  for (const bool named : {true, false}) {
    Options chosen = options();
    chosen.prepared = named;
    open(chosen);
    for (std::uint32_t i = 0; i < cases.size(); ++i) {
      const Case& one = cases[i];
      const auto s = prepare(one.sql, one.declared);
      ASSERT_TRUE(s) << one.sql << ": " << s.error().message;
      const Rows rows = fetch(*s, one.values);
      ASSERT_FALSE(rows.error) << one.sql << ": " << rows.error->message;
      EXPECT_EQ(json_of(*s, rows.rows.at(0)), one.answer) << one.sql;
    }
  }
}

TEST_F(PostgresTest, TypesThatDisagreeAreRefusedWithTheParametersName) {
  const std::string hint = "a parameter that comes several times (:q) has one type";
  const auto s = prepare("SELECT :other::int FROM pg_class WHERE :q IS NULL OR relpages = :q OR lower(:q) = 'a'");
  ASSERT_FALSE(s);
  EXPECT_EQ(s.error().failure, Failure::statement);
  EXPECT_EQ(s.error().sqlstate, "42883");
  EXPECT_EQ(s.error().position, 71u);
  EXPECT_TRUE(s.error().message.contains(hint)) << s.error().message;
  const auto second = prepare("SELECT 1 FROM pg_class WHERE lower(:q) = 'a' OR relpages = :q");
  ASSERT_FALSE(second);
  EXPECT_TRUE(second.error().message.contains(hint)) << second.error().message;
  EXPECT_TRUE(prepare("SELECT 1 FROM pg_class WHERE lower(:q) = 'a' OR relpages::text = :q"));
  const auto once = prepare("SELECT 1 + lower(:q)");
  ASSERT_FALSE(once);
  EXPECT_FALSE(once.error().message.contains("several times")) << once.error().message;
}

TEST_F(PostgresTest, PrepareRefusesAndPointsAtTheCharacter) {
  const auto s = prepare("SELECT :parameter::int,\n 'ä', colour FROM pg_class");
  ASSERT_FALSE(s);
  EXPECT_EQ(s.error().failure, Failure::statement);
  EXPECT_EQ(s.error().sqlstate, "42703");
  EXPECT_EQ(s.error().position, 31u);
  const auto syntax = prepare("SELEC 1");
  ASSERT_FALSE(syntax);
  EXPECT_EQ(syntax.error().position, 1u);
  EXPECT_TRUE(prepare("SELECT 1"));
}

TEST_F(PostgresTest, EveryPipelinedRequestGetsItsOwnAnswer) {
  Options chosen = options();
  chosen.pool_size = 1;
  chosen.pipeline = 1000;
  open(chosen);
  const Statement s = must_prepare("SELECT :k::int, repeat(:k::text, 1 + :k::int % 50), pg_backend_pid()", true);
  for (int round = 0; round < 3; ++round) {
    std::vector<Rows> answers(200);
    for (std::size_t i = 0; i < answers.size(); ++i) {
      tasks.spawn(collect(*database, s, {std::to_string(i)}, answers[i]));
    }
    settle();
    for (std::size_t i = 0; i < answers.size(); ++i) {
      ASSERT_FALSE(answers[i].error) << answers[i].error->message;
      ASSERT_EQ(answers[i].rows.size(), 1u);
      EXPECT_EQ(answers[i].rows[0][0], std::to_string(i));
      std::string expected;
      for (std::size_t n = 0; n < 1 + i % 50; ++n) expected += std::to_string(i);
      EXPECT_EQ(answers[i].rows[0][1], expected);
      EXPECT_EQ(answers[i].rows[0][2], answers[0].rows[0][2]) << "not on one connection";
    }
  }
  EXPECT_EQ(database->counters().shared_requests, 600u);
  EXPECT_EQ(database->counters().exclusive_requests, 0u);
}

TEST_F(PostgresTest, AnErrorInThePipelineHitsOnlyItsOwnRequest) {
  const Statement s = must_prepare("SELECT 100 / :k::int", true);
  std::vector<Rows> answers(60);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const std::string value = i % 7 == 3 ? "0" : i % 7 == 5 ? "pear" : std::to_string(i + 1);
    tasks.spawn(collect(*database, s, {value}, answers[i]));
  }
  settle();
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (i % 7 == 3 || i % 7 == 5) {
      ASSERT_TRUE(answers[i].error) << i;
      EXPECT_EQ(answers[i].error->failure, Failure::bad_argument);
      EXPECT_EQ(answers[i].error->sqlstate, i % 7 == 3 ? "22012" : "22P02");
    } else {
      ASSERT_FALSE(answers[i].error) << answers[i].error->message;
      EXPECT_EQ(answers[i].rows, (std::vector<Row>{{std::to_string(100 / (i + 1))}}));
    }
  }
}

TEST_F(PostgresTest, ABatchSharesATransactionAndNothingElse) {
  Options chosen = options();
  chosen.pool_size = 2;
  for (const std::size_t batch : {1, 16}) {
    chosen.batch = batch;
    open(chosen);
    const Statement when = must_prepare("SELECT :k::int, extract(epoch FROM now())", true);
    (void)fetch(when, {"0"});
    std::vector<Rows> answers(64);
    for (std::size_t i = 0; i < answers.size(); ++i) {
      tasks.spawn(collect(*database, when, {std::to_string(i)}, answers[i]));
    }
    settle();
    std::set<std::string> transactions;
    for (std::size_t i = 0; i < answers.size(); ++i) {
      ASSERT_FALSE(answers[i].error) << answers[i].error->message;
      EXPECT_EQ(answers[i].rows.at(0).at(0), std::to_string(i));
      transactions.insert(*answers[i].rows.at(0).at(1));
    }
    if (batch == 1) {
      EXPECT_GT(transactions.size(), 16u);
    } else {
      EXPECT_EQ(transactions.size(), 4u);
    }

    // An error ends the transaction. Only the failed request gets it; the others are repeated.
    const Statement divide = must_prepare("SELECT 100 / :k::int", true);
    const Statement large = must_prepare("SELECT repeat('x', 2000000), :k::int", true);
    std::vector<Rows> mixed(90);
    for (std::size_t i = 0; i < mixed.size(); ++i) {
      const std::string value = i % 7 == 3 ? "0" : i % 7 == 5 ? "pear" : std::to_string(i + 1);
      tasks.spawn(collect(*database, i == 40 ? large : i % 2 == 0 ? divide : when, {value}, mixed[i]));
    }
    settle();
    for (std::size_t i = 0; i < mixed.size(); ++i) {
      if (i == 40) {
        ASSERT_TRUE(mixed[i].error) << "pear";
      } else if (i % 7 == 5 || (i % 7 == 3 && i % 2 == 0)) {
        ASSERT_TRUE(mixed[i].error) << i;
        EXPECT_EQ(mixed[i].error->sqlstate, i % 7 == 5 ? "22P02" : "22012");
      } else {
        ASSERT_FALSE(mixed[i].error) << i << " " << mixed[i].error->message;
        const std::size_t k = i % 7 == 3 ? 0 : i + 1;
        EXPECT_EQ(mixed[i].rows.at(0).at(0), std::to_string(i % 2 == 0 ? 100 / k : k));
      }
    }
    EXPECT_EQ(database->counters().skipped > 0, batch > 1);
    EXPECT_EQ(database->counters().lost, 0u);
    const Rows whole = fetch(large, {"5"});
    ASSERT_FALSE(whole.error) << whole.error->message;
    EXPECT_EQ(whole.rows.at(0).at(0)->size(), 2'000'000u);
  }
}

// While the caller has not seen any row, the error is the answer.
TEST_F(PostgresTest, AnErrorBehindAFewRowsIsTheAnswer) {
  const Rows rows = fetch(must_prepare("SELECT 10 / (3 - n) FROM generate_series(1, 5) n"));
  ASSERT_TRUE(rows.error);
  EXPECT_EQ(rows.error->sqlstate, "22012");
  EXPECT_EQ(rows.blocks, 0u);
}

TEST_F(PostgresTest, NullsEmptyTextAndLargeArgumentsArriveAsTheyAre) {
  const Statement s = must_prepare("SELECT :a::text, :b::text, md5(:c::text), length(:c)", true);
  const std::string large(3'000'000, 'q');
  const Rows rows = fetch(s, {std::nullopt, "", large});
  ASSERT_FALSE(rows.error) << rows.error->message;
  EXPECT_EQ(rows.rows[0][0], std::nullopt);
  EXPECT_EQ(rows.rows[0][1], "");
  EXPECT_EQ(rows.rows[0][3], "3000000");
  const Rows nul = fetch(s, {std::string("a\0b", 3), "", "x"});
  ASSERT_TRUE(nul.error);
  EXPECT_EQ(nul.error->failure, Failure::bad_argument);
}

TEST_F(PostgresTest, AnAnswerTooLargeToShareIsAskedForAgainAlone) {
  const Statement s = must_prepare("SELECT repeat('x', :n::int)", true);
  ASSERT_EQ(fetch(s, {"10"}).rows[0][0]->size(), 10u);
  EXPECT_EQ(database->counters().overflows, 0u);
  const Rows large = fetch(s, {"3000000"});
  ASSERT_FALSE(large.error) << large.error->message;
  EXPECT_EQ(large.rows.at(0).at(0)->size(), 3'000'000u);
  EXPECT_EQ(database->counters().overflows, 1u);
  EXPECT_EQ(database->counters().exclusive_requests, 1u);
}

TEST_F(PostgresTest, StatementsWithSmallResultsAreSharedAfterAWhile) {
  const Statement s = must_prepare("SELECT n FROM generate_series(1, :n::int) n");
  for (int i = 0; i < 8; ++i) EXPECT_EQ(fetch(s, {"20"}).rows.size(), 20u);
  EXPECT_EQ(database->counters().shared_requests, 0u);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(fetch(s, {"20"}).rows.size(), 20u);
  EXPECT_EQ(database->counters().shared_requests, 5u);
  EXPECT_EQ(database->counters().exclusive_requests, 8u);
  // 999 rows are kept; an answer of a thousand may have more rows.
  EXPECT_EQ(fetch(s, {"999"}).rows.size(), 999u);
  EXPECT_EQ(database->counters().overflows, 0u);
  EXPECT_EQ(fetch(s, {"5000"}).rows.size(), 5000u);
  EXPECT_EQ(database->counters().overflows, 1u);
  EXPECT_EQ(fetch(s, {"20"}).rows.size(), 20u);
  EXPECT_EQ(database->counters().exclusive_requests, 10u);
}

TEST_F(PostgresTest, AnObjectNeedsNoMoreThanTwoRows) {
  const Statement s = must_prepare("SELECT n FROM generate_series(1, 1000000) n", true);
  EXPECT_EQ(fetch(s).rows, (std::vector<Row>{{"1"}, {"2"}}));
  EXPECT_EQ(database->counters().overflows, 0u);
  const Statement none = must_prepare("SELECT 1 WHERE false", true);
  const Rows rows = fetch(none);
  EXPECT_FALSE(rows.error);
  EXPECT_EQ(rows.rows.size(), 0u);
  EXPECT_EQ(rows.blocks, 1u);
}

TEST_F(PostgresTest, AStatementWithoutColumnsAndOneWithoutRows) {
  const Statement no_columns = must_prepare("SELECT FROM generate_series(1, 3)");
  EXPECT_EQ(fetch(no_columns).rows, (std::vector<Row>{{}, {}, {}}));
  const Statement no_rows = must_prepare("SET LOCAL work_mem = '8MB'");
  EXPECT_TRUE(no_rows.columns.empty());
  const Rows rows = fetch(no_rows);
  EXPECT_FALSE(rows.error);
  EXPECT_EQ(rows.rows.size(), 0u);
}

// Rows that are taken later must still belong to the request.
TEST_F(PostgresTest, RowsThatAreTakenLaterAreKept) {
  const Statement s = must_prepare("SELECT :k::text, NULL::text, ''", true);
  std::vector<std::unique_ptr<Cursor>> cursors(50);
  for (std::size_t i = 0; i < cursors.size(); ++i) {
    tasks.spawn([](sql::Database& db, const Statement& statement, std::size_t key,
                   std::unique_ptr<Cursor>& into) -> Task<void> {
      const std::string text = "key " + std::to_string(key);
      const Argument argument{text, ParameterType::text};
      auto cursor = co_await db.query(statement, {&argument, 1}, {});
      EXPECT_TRUE(cursor);
      if (cursor) into = std::move(*cursor);
    }(*database, s, i, cursors[i]));
  }
  settle();
  for (std::size_t i = 0; i < cursors.size(); ++i) {
    auto next = cursors[i]->next();
    ASSERT_TRUE(next.ready());
    const auto block = next.take();
    ASSERT_TRUE(block);
    ASSERT_EQ(block->rows, 1u);
    EXPECT_EQ(block->row(0)[0].view(), "key " + std::to_string(i));
    EXPECT_TRUE(block->row(0)[1].is_null());
    EXPECT_FALSE(block->row(0)[2].is_null());
    EXPECT_TRUE(block->last);
  }
}

// Abandoning a request discards only its own answer.
TEST_F(PostgresTest, ForgottenRequestsDoNotShiftTheOthers) {
  const Statement s = must_prepare("SELECT :k::int, pg_sleep(0.002)", true);
  core::TaskGroup leaving;
  std::vector<Rows> answers(80);
  std::vector<Rows> lost(80);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    tasks.spawn(collect(*database, s, {std::to_string(i)}, answers[i]));
    leaving.spawn(collect(*database, s, {std::to_string(1000 + i)}, lost[i]));
  }
  turn_for(20ms);
  leaving.cancel();
  settle();
  for (std::size_t i = 0; i < answers.size(); ++i) {
    ASSERT_FALSE(answers[i].error) << answers[i].error->message;
    ASSERT_EQ(answers[i].rows.size(), 1u);
    EXPECT_EQ(answers[i].rows[0][0], std::to_string(i));
  }
}

TEST_F(PostgresTest, AStreamIsReadOnlyAsFastAsItIsPulled) {
  const Statement s = must_prepare("SELECT repeat('x', 1000) FROM generate_series(1, 300000)");
  std::unique_ptr<Cursor> cursor;
  tasks.spawn([](sql::Database& db, const Statement& statement, std::unique_ptr<Cursor>& into) -> Task<void> {
    auto made = co_await db.query(statement, {}, {});
    EXPECT_TRUE(made);
    if (made) into = std::move(*made);
  }(*database, s, cursor));
  settle();
  ASSERT_TRUE(cursor);
  turn_for(100ms);
  // 300 MB are to be sent, and the server waits until we read more.
  EXPECT_EQ(Cluster::shared().psql("SELECT wait_event FROM pg_stat_activity WHERE query LIKE '%repeat%' AND state = "
                                   "'active' AND pid <> pg_backend_pid()"),
            "ClientWrite\n");
  std::size_t rows = 0;
  std::size_t largest = 0;
  run([](Cursor& from, std::size_t& count, std::size_t& most) -> Task<void> {
    for (;;) {
      auto block = co_await from.next();
      EXPECT_TRUE(block);
      if (!block) co_return;
      count += block->rows;
      most = std::max(most, block->rows);
      if (block->last) co_return;
    }
  }(*cursor, rows, largest));
  EXPECT_EQ(rows, 300'000u);
  EXPECT_LE(largest, 300u) << "blocks have a bound, however fast the server is";
}

// A fast stream is read with pauses, during which arriving bytes wake no coroutine.
TEST_F(PostgresTest, AStreamThatFallsSilentIsStillHeard) {
  const Rows all =
      fetch(must_prepare("SELECT repeat('x', 1000), CASE WHEN n % 4000 = 0 THEN pg_sleep(0.05) END "
                         "FROM generate_series(1, 14000) n"));
  ASSERT_FALSE(all.error) << all.error->message;
  EXPECT_EQ(all.rows.size(), 14'000u);
  // On the same connection, which must report new bytes again.
  const std::size_t connections = database->open_connections();
  for (std::uint32_t i = 0; i < 3; ++i) EXPECT_FALSE(fetch(must_prepare("SELECT 1", true)).error);
  EXPECT_EQ(database->open_connections(), connections);

  const Rows cut =
      fetch(must_prepare("SELECT repeat('x', 1000), CASE WHEN n = 8000 THEN "
                         "pg_terminate_backend(pg_backend_pid()) END FROM generate_series(1, 14000) n"));
  ASSERT_TRUE(cut.error);
  EXPECT_GE(cut.rows.size(), 1000u);
  EXPECT_LT(cut.rows.size(), 14'000u);

  Options chosen = options();
  chosen.wait_ms = 200;
  chosen.statement_timeout_ms = 300;
  open(chosen);
  const Rows late =
      fetch(must_prepare("SELECT repeat('x', 1000), CASE WHEN n = 8000 THEN pg_sleep(600) END "
                         "FROM generate_series(1, 14000) n"));
  ASSERT_TRUE(late.error);
  EXPECT_EQ(late.error->failure, Failure::timed_out);
}

TEST_F(PostgresTest, DestroyingACursorCancelsTheStatement) {
  const Statement s = must_prepare("SELECT generate_series(1, 1000000000), 'cancel me'");
  std::unique_ptr<Cursor> cursor;
  tasks.spawn([](sql::Database& db, const Statement& statement, std::unique_ptr<Cursor>& into) -> Task<void> {
    auto made = co_await db.query(statement, {}, {});
    EXPECT_TRUE(made);
    if (made) into = std::move(*made);
  }(*database, s, cursor));
  settle();
  const std::string active =
      "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%cancel me%' AND state = 'active' AND pid <> "
      "pg_backend_pid()";
  EXPECT_EQ(Cluster::shared().psql(active), "1\n");
  cursor.reset();
  EXPECT_TRUE(turn_until([&] { return Cluster::shared().psql(active) == "0\n"; }));
  EXPECT_EQ(database->counters().cancels, 1u);
  turn_for(50ms);
  // The connection is reused, and the cancel does not hit the next query.
  const std::size_t connections = database->open_connections();
  for (std::uint32_t i = 0; i < 20; ++i) {
    const Rows rows = fetch(must_prepare("SELECT n FROM generate_series(1, 5000) n"));
    EXPECT_FALSE(rows.error) << rows.error->message;
    EXPECT_EQ(rows.rows.size(), 5000u);
  }
  EXPECT_EQ(database->open_connections(), connections);
  EXPECT_EQ(database->counters().lost, 0u);
}

// Queries with settings: each is its own transaction, and its settings end with it.
class PostgresRolesTest : public PostgresTest {
 public:
  void SetUp() override {
    PostgresTest::SetUp();
    Cluster::shared().psql(
        "SET client_min_messages = warning; DROP TABLE IF EXISTS notes; DROP ROLE IF EXISTS reader, writer, stranger, "
        "login;"
        "CREATE ROLE reader; CREATE ROLE writer; CREATE ROLE stranger; CREATE ROLE login LOGIN NOINHERIT;"
        "GRANT reader, writer TO login; CREATE TABLE notes (owner text, n int);"
        "INSERT INTO notes SELECT CASE WHEN n % 2 = 0 THEN 'ada' ELSE 'bob' END, n FROM generate_series(1, 20000) n;"
        "ALTER TABLE notes ENABLE ROW LEVEL SECURITY; GRANT SELECT ON notes TO reader; GRANT ALL ON notes TO writer;"
        "CREATE POLICY own ON notes USING (owner = current_setting('request.jwt.claims', true)::json ->> 'sub')");
    open(options_of_login());
  }
  static Options options_of_login() {
    Options chosen = options();
    chosen.user = "login";
    return chosen;
  }
  static std::vector<Setting> as(std::string role, std::string sub = "ada") {
    return {{"role", std::move(role)}, {"request.jwt.claims", R"({"sub":")" + sub + R"("})"}};
  }
  Rows fetch_as(const Statement& statement, const std::vector<Setting>& settings,
                std::vector<std::optional<std::string>> values = {}) {
    return fetch(statement, std::move(values), {.settings = settings});
  }
  // No setting remains visible in look-ups or streams, and no session is in a transaction.
  void expect_no_trace() {
    const Statement who =
        must_prepare("SELECT current_user::text, coalesce(current_setting('request.jwt.claims', true), '')");
    for (int i = 0; i < 20; ++i) {
      const Rows rows = fetch(who);
      ASSERT_FALSE(rows.error) << rows.error->message;
      EXPECT_EQ(rows.rows, (std::vector<Row>{{"login", ""}}));
    }
    const Statement both = must_prepare("SELECT current_user::text FROM generate_series(1, 5)");
    Rows all[6];
    for (Rows& rows : all) tasks.spawn(collect(*database, both, {}, rows));
    settle();
    for (const Rows& rows : all) {
      EXPECT_FALSE(rows.error);
      EXPECT_EQ(rows.rows, std::vector<Row>(5, Row{"login"}));
    }
    EXPECT_TRUE(turn_until([] {  // a ROLLBACK may be in flight
      return Cluster::shared().psql(
                 "SELECT count(*) FROM pg_stat_activity WHERE usename = 'login' AND state LIKE 'idle in%'") == "0\n";
    }));
  }
};

TEST_F(PostgresRolesTest, DecideWhatIsSeenAndRowsAreStreamed) {
  const Statement s = must_prepare("SELECT owner, n FROM notes WHERE n > :least::int ORDER BY n");
  for (int i = 0; i < 12; ++i) {  // the first eight run alone, as without settings
    const std::string sub = i % 2 == 0 ? "ada" : "bob";
    const Rows rows = fetch_as(s, as("reader", sub), {"19990"});
    ASSERT_FALSE(rows.error) << rows.error->message;
    ASSERT_EQ(rows.rows.size(), 5u);
    for (const Row& row : rows.rows) EXPECT_EQ(row[0], sub);
  }
  const Rows all = fetch_as(s, as("reader"), {"0"});
  ASSERT_FALSE(all.error) << all.error->message;
  EXPECT_EQ(all.rows.size(), 10000u);
  EXPECT_GT(all.blocks, 1u);
  EXPECT_EQ(database->counters().shared_requests, 5u);
  EXPECT_EQ(database->counters().overflows, 1u);
  EXPECT_EQ(database->counters().lost, 0u);
  const Statement object = must_prepare(
      "SELECT current_user::text, current_setting('transaction_read_only') FROM generate_series(1, 9)", true);
  const Rows few = fetch_as(object, as("writer"));
  EXPECT_EQ(few.rows, (std::vector<Row>{{"writer", "on"}, {"writer", "on"}}));
  expect_no_trace();
}

TEST_F(PostgresRolesTest, ShareAConnectionAndARefusedOneDisturbsNobody) {
  Options chosen = options_of_login();
  chosen.pool_size = 1;
  chosen.batch = 16;  // look-ups without settings share a Sync, and those with settings must not
  open(std::move(chosen));
  const Statement who = must_prepare(
      "SELECT current_user::text, coalesce(current_setting('request.jwt.claims', true), ''), :n::int AS n", true);
  const Statement own = must_prepare("SELECT count(*)::int FROM notes", true);
  const std::vector<Setting> reader = as("reader", "bob");
  const std::vector<Setting> writer = as("writer");
  const std::vector<Setting> stranger = as("stranger");
  const std::vector<Setting>* const all[] = {&reader, nullptr, &writer, &stranger, nullptr};
  for (int round = 0; round < 5; ++round) {
    constexpr int count = 50;
    Rows answers[count];
    Rows counts[count];
    core::TaskGroup leaving;
    for (int i = 0; i < count; ++i) {
      const auto* const settings = all[i % 5];
      const QueryOptions options{.settings = settings != nullptr ? *settings : std::span<const Setting>{}};
      tasks.spawn(collect(*database, who, {std::to_string(i)}, answers[i], options));
      if (settings != nullptr) tasks.spawn(collect(*database, own, {}, counts[i], options));
      Rows abandoned;
      leaving.spawn(collect(*database, who, {"7"}, abandoned, options));
      leaving.cancel();
    }
    settle();
    for (int i = 0; i < count; ++i) {
      const auto* const settings = all[i % 5];
      if (settings == &stranger) {
        ASSERT_TRUE(answers[i].error && counts[i].error);
        EXPECT_EQ(answers[i].error->failure, Failure::not_allowed);
        EXPECT_EQ(counts[i].error->failure, Failure::not_allowed);
        continue;
      }
      ASSERT_FALSE(answers[i].error) << answers[i].error->message;
      const Row expected = settings == nullptr ? Row{"login", "", std::to_string(i)}
                                               : Row{(*settings)[0].value, (*settings)[1].value, std::to_string(i)};
      EXPECT_EQ(answers[i].rows, std::vector<Row>{expected});
      if (settings != nullptr) {
        ASSERT_FALSE(counts[i].error) << counts[i].error->message;
        EXPECT_EQ(counts[i].rows, (std::vector<Row>{{"10000"}}));
      }
    }
  }
  EXPECT_EQ(database->counters().exclusive_requests, 0u);
  EXPECT_EQ(database->counters().opened, 1u);
  EXPECT_EQ(database->counters().lost, 0u);
  expect_no_trace();
}

TEST_F(PostgresRolesTest, AreBoundAndNeverSpliced) {
  const Statement s = must_prepare("SELECT current_user::text", true);
  for (const char* role : {"reader; DROP TABLE notes", "reader\"; RESET ROLE; --", "'", "", "READER", "nobody at all",
                           "stranger", "postgres", "\xff"}) {
    const Rows rows = fetch_as(s, as(role));
    ASSERT_TRUE(rows.error) << role;
    EXPECT_EQ(rows.error->failure, Failure::not_allowed) << role << rows.error->message;
    EXPECT_TRUE(rows.rows.empty());
  }
  EXPECT_EQ(Cluster::shared().psql("SELECT count(*) FROM notes"), "20000\n");
  EXPECT_EQ(database->counters().lost, 0u);
  expect_no_trace();
}

TEST_F(PostgresRolesTest, LeaveNothingBehindWhateverBecomesOfTheQuery) {
  const Statement forbidden = must_prepare("SELECT * FROM pg_authid");
  const Statement divides = must_prepare("SELECT 1 / (n - 5000) FROM generate_series(1, 6000) n");
  const Statement endless = must_prepare("SELECT current_user::text, generate_series(1, 1000000000)");
  const Statement sleeps = must_prepare("SELECT current_user::text, pg_sleep(30)::text");
  const Statement writes = must_prepare("WITH gone AS (DELETE FROM notes RETURNING n) SELECT count(*) FROM gone");
  const std::vector<Setting> settings = as("writer");
  for (int i = 0; i < 3; ++i) {
    const Rows refused = fetch_as(forbidden, settings);
    ASSERT_TRUE(refused.error);
    EXPECT_EQ(refused.error->failure, Failure::statement);
    EXPECT_EQ(refused.error->sqlstate, "42501");
    const Rows broken = fetch_as(divides, settings);
    ASSERT_TRUE(broken.error);
    EXPECT_EQ(broken.error->failure, Failure::bad_argument);
    const Rows written = fetch_as(writes, settings);
    ASSERT_TRUE(written.error);
    EXPECT_EQ(written.error->sqlstate, "25006");
    expect_no_trace();

    // The query is abandoned after its first rows, before them, and by its deadline.
    std::unique_ptr<Cursor> cursor;
    tasks.spawn([](sql::Database& db, const Statement& statement, std::span<const Setting> set,
                   std::unique_ptr<Cursor>& into) -> Task<void> {
      auto made = co_await db.query(statement, {}, {.settings = set});
      EXPECT_TRUE(made);
      if (!made) co_return;
      auto block = co_await (*made)->next();
      EXPECT_TRUE(block && block->rows != 0 && block->row(0)[0].view() == "writer");
      into = std::move(*made);
    }(*database, endless, settings, cursor));
    settle();
    cursor.reset();
    expect_no_trace();
    Rows never_read;
    tasks.spawn(collect(*database, sleeps, {}, never_read, {.settings = settings}));
    EXPECT_TRUE(turn_until([] {
      return Cluster::shared().psql(
                 "SELECT count(*) FROM pg_stat_activity WHERE usename = 'login' AND wait_event = "
                 "'PgSleep'") == "1\n";
    }));
    tasks.cancel();
    expect_no_trace();
    const Rows late = fetch(sleeps, {}, {.deadline = reactor->now() + 50ms, .settings = settings});
    ASSERT_TRUE(late.error);
    EXPECT_EQ(late.error->failure, Failure::timed_out);
    expect_no_trace();
  }
  EXPECT_EQ(Cluster::shared().psql("SELECT count(*) FROM notes"), "20000\n");
}

TEST_F(PostgresRolesTest, WorkWithoutPreparedStatementsAndWithChangedColumns) {
  const Statement s = must_prepare("SELECT * FROM notes WHERE n = 2");
  Cluster::shared().psql("ALTER TABLE notes ADD COLUMN more text DEFAULT 'x'");
  EXPECT_EQ(fetch_as(s, as("reader")).rows, (std::vector<Row>{{"ada", "2", "x"}}));
  Cluster::shared().psql("ALTER TABLE notes DROP COLUMN more");
  EXPECT_EQ(fetch_as(s, as("reader")).rows, (std::vector<Row>{{"ada", "2"}}));
  expect_no_trace();
  Options chosen = options_of_login();
  chosen.prepared = false;
  chosen.pool_size = 1;
  open(std::move(chosen));
  EXPECT_EQ(fetch_as(s, as("reader")).rows, (std::vector<Row>{{"ada", "2"}}));
  EXPECT_TRUE(fetch_as(s, as("reader", "bob")).rows.empty());
  EXPECT_TRUE(fetch_as(s, as("stranger")).error);
  expect_no_trace();
}

TEST_F(PostgresRolesTest, HoldForTransactions) {
  const Statement insert = must_prepare("INSERT INTO notes VALUES (:owner, 1) RETURNING current_user::text");
  const auto write = [&](const std::string& role, std::string_view owner) {
    std::optional<Result<Written>> done;
    std::string by;
    const std::vector<Setting> settings = as(role);
    run([](sql::Database& db, const Statement& statement, std::span<const Setting> set, std::string_view text,
           std::optional<Result<Written>>& into, std::string& user) -> Task<void> {
      const auto transaction = db.begin({.settings = set});
      const Argument argument{text, ParameterType::text};
      into = co_await transaction->finish(statement, {&argument, 1}, 1);
      if (*into) user = (*into)->rows.row(0)[0].view();
    }(*database, insert, settings, owner, done, by));
    return *done ? by : (*done).error().failure == Failure::not_allowed ? "not allowed" : (*done).error().sqlstate;
  };
  EXPECT_EQ(write("writer", "ada"), "writer");
  EXPECT_EQ(write("writer", "bob"), "42501");  // row-level security
  EXPECT_EQ(write("reader", "ada"), "42501");  // no grant
  EXPECT_EQ(write("stranger", "ada"), "not allowed");
  EXPECT_EQ(write("writer'; RESET ROLE; --", "ada"), "not allowed");
  EXPECT_EQ(write("writer", "ada"), "writer");
  expect_no_trace();
  EXPECT_EQ(Cluster::shared().psql("SELECT count(*) FROM notes"), "20002\n");
}

// Statements whose functions change the session: with a single connection, the next statement must not see the changes.
class PostgresSessionTest : public PostgresTest {
 public:
  void SetUp() override {
    PostgresTest::SetUp();
    Cluster::shared().psql(R"(
DROP SCHEMA IF EXISTS leaks CASCADE;
CREATE SCHEMA leaks;
DO $$ BEGIN CREATE ROLE leaked; EXCEPTION WHEN duplicate_object THEN NULL; END $$;
CREATE FUNCTION leaks.leak() RETURNS int LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_advisory_lock(4711);
  PERFORM set_config('search_path', 'pg_temp', false), set_config('TimeZone', 'Asia/Tokyo', false),
    set_config('default_transaction_read_only', 'off', false), set_config('statement_timeout', '1h', false),
    set_config('app.who', 'ada', false);
  EXECUTE 'LISTEN leaks';
  EXECUTE 'SET ROLE leaked';
  RETURN 1;
END $$;
CREATE FUNCTION leaks."Odd ""name"() RETURNS int LANGUAGE sql AS 'SELECT leaks.leak()';
CREATE FUNCTION leaks.harmless(int) RETURNS int LANGUAGE internal IMMUTABLE AS 'int4abs';
CREATE VIEW leaks.seen AS SELECT leaks.leak() AS n;
CREATE VIEW leaks.seen_again AS SELECT n FROM leaks.seen;
CREATE VIEW leaks.plain AS SELECT 1 AS n;
CREATE TABLE leaks.guarded (n int);
INSERT INTO leaks.guarded VALUES (1);
ALTER TABLE leaks.guarded ENABLE ROW LEVEL SECURITY;
CREATE POLICY p ON leaks.guarded USING (leaks.leak() = n);
CREATE DOMAIN leaks.checked AS int CHECK (leaks.leak() = VALUE);
CREATE DOMAIN leaks.nested AS leaks.checked;
CREATE DOMAIN leaks.many AS leaks.checked[];
CREATE TYPE leaks.pair AS (n leaks.checked, text text);
CREATE TABLE leaks.wide (p leaks.pair);
CREATE TYPE leaks.span AS RANGE (subtype = leaks.checked);
CREATE DOMAIN leaks.small AS int CHECK (VALUE < 10);
CREATE TYPE leaks.mood AS ENUM ('good');
CREATE TABLE leaks.moods (mood leaks.mood, n leaks.small);
CREATE OR REPLACE FUNCTION leaks.on_write() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
)");
    Options chosen = options();
    chosen.pool_size = 1;
    chosen.statement_timeout_ms = 60'000;
    open(chosen);
    ask_ = must_prepare(
        "SELECT current_user::text, session_user::text, current_setting('search_path'), current_setting('TimeZone'),"
        " current_setting('default_transaction_read_only'), coalesce(current_setting('app.who', true), ''),"
        " (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid())::text,"
        " (SELECT count(*) FROM pg_listening_channels())::text, current_setting('statement_timeout')",
        true);
    EXPECT_FALSE(ask_.may_change_session);
    session_ = session();
    EXPECT_EQ(session_.at(0), "postgres");
    EXPECT_EQ(session_.back(), "1min");
  }
  void TearDown() override {
    PostgresTest::TearDown();
    Cluster::shared().psql("DROP SCHEMA leaks CASCADE");
  }
  Row session() {
    const Rows rows = fetch(ask_);
    EXPECT_FALSE(rows.error) << rows.error->message;
    return rows.rows.empty() ? Row{} : rows.rows[0];
  }
  void expect_unchanged(std::string_view after) {
    EXPECT_EQ(session(), session_) << after;
    EXPECT_EQ(database->counters().opened, 1u) << "the same connection";
    EXPECT_EQ(database->counters().lost, 0u);
  }

  Statement ask_;
  Row session_;
};

TEST_F(PostgresSessionTest, IsResetBehindLookUpsThatMayChangeIt) {
  const Statement leaks = must_prepare("SELECT leaks.leak(), current_user::text", true);
  ASSERT_TRUE(leaks.may_change_session);
  for (int i = 0; i < 3; ++i) {
    // All in one pipeline.
    std::array<Rows, 5> rows;
    for (std::size_t k = 0; k < rows.size(); ++k) {
      tasks.spawn(collect(*database, k % 2 == 0 ? leaks : ask_, {}, rows[k]));
    }
    settle();
    for (std::size_t k = 0; k < rows.size(); ++k) {
      ASSERT_FALSE(rows[k].error) << rows[k].error->message;
      EXPECT_EQ(rows[k].rows, (std::vector<Row>{k % 2 == 0 ? Row{"1", "leaked"} : session_})) << k;
    }
  }
  EXPECT_EQ(database->counters().exclusive_requests, 0u) << "they share the connection as before";
  expect_unchanged("look-ups");
}

TEST_F(PostgresSessionTest, IsResetBehindABatch) {
  Options chosen = options();
  chosen.pool_size = 1;
  chosen.statement_timeout_ms = 60'000;
  chosen.batch = 16;
  open(chosen);
  const Statement leaks = must_prepare("SELECT leaks.leak()", true);
  std::array<Rows, 6> rows;
  for (std::size_t k = 0; k < rows.size(); ++k) {
    tasks.spawn(collect(*database, k == 2 ? leaks : ask_, {}, rows[k]));
  }
  settle();
  for (std::size_t k = 0; k < rows.size(); ++k) {
    ASSERT_FALSE(rows[k].error) << rows[k].error->message;
    if (k != 2) {
      EXPECT_EQ(rows[k].rows, (std::vector<Row>{session_})) << k;
    }
  }
  expect_unchanged("a batch");
}

TEST_F(PostgresSessionTest, IsResetBehindStreamsHoweverTheyEnd) {
  const Statement streams = must_prepare("SELECT leaks.leak(), n FROM generate_series(1, 20000) n");
  const Statement breaks = must_prepare("SELECT leaks.leak(), 1 / (n - 5000) FROM generate_series(1, 6000) n");
  const Statement locks = must_prepare("SELECT pg_advisory_lock(n), 1 / (n - 2) FROM generate_series(1, 60) n", true);
  for (int i = 0; i < 2; ++i) {
    const Rows all = fetch(streams);
    ASSERT_FALSE(all.error) << all.error->message;
    EXPECT_EQ(all.rows.size(), 20000u);
    expect_unchanged("a stream");
    EXPECT_TRUE(fetch(breaks).error);
    expect_unchanged("a stream that failed");
    std::unique_ptr<Cursor> cursor;
    tasks.spawn([](sql::Database& db, const Statement& statement, std::unique_ptr<Cursor>& into) -> Task<void> {
      auto made = co_await db.query(statement, {}, {});
      EXPECT_TRUE(made);
      if (!made) co_return;
      auto block = co_await (*made)->next();
      EXPECT_TRUE(block);
      into = std::move(*made);
    }(*database, streams, cursor));
    settle();
    cursor.reset();
    expect_unchanged("a stream that was left");
    EXPECT_TRUE(fetch(locks).error);
    expect_unchanged("a look-up that failed: its locks");
  }
}

TEST_F(PostgresSessionTest, IsResetBehindATransactionOfSettings) {
  const Statement leaks = must_prepare("SELECT leaks.leak(), current_setting('app.asks')", true);
  const Statement breaks = must_prepare("SELECT leaks.leak(), 1 / (n - 50) FROM generate_series(1, 60) n");
  const std::vector<Setting> settings{{"app.asks", "bob"}};
  for (int i = 0; i < 2; ++i) {
    const Rows rows = fetch(leaks, {}, {.settings = settings});
    ASSERT_FALSE(rows.error) << rows.error->message;
    EXPECT_EQ(rows.rows, (std::vector<Row>{{"1", "bob"}}));
    expect_unchanged("a query with settings");
    EXPECT_TRUE(fetch(breaks, {}, {.settings = settings}).error);
    expect_unchanged("one that failed");
  }
}

TEST_F(PostgresSessionTest, IsResetWhereverTheFunctionIsNamed) {
  for (const char* text :
       {"SELECT n FROM leaks.seen_again", "SELECT n FROM leaks.\"seen\"", "SELECT n FROM leaks.guarded",
        "SELECT 1::leaks.checked", "SELECT 1::leaks.nested", "SELECT ARRAY[n]::leaks.many FROM generate_series(1, 1) n",
        "SELECT (ROW(n, 'a')::leaks.pair)::text FROM generate_series(1, 1) n",
        "SELECT leaks.span(n, n, '[]') FROM generate_series(1, 1) n",
        R"(SELECT (json_populate_record(NULL::leaks.wide, '{"p":{"n":1}}')).p)", "SELECT leaks.\"Odd \"\"name\"()",
        "SELECT LEAKS.Leak ()", "SELECT leaks.U&\"\\006ceak\"()", "EXPLAIN ANALYZE SELECT leaks.leak()",
        "SELECT set_config('TimeZone', 'Asia/Tokyo', false)", "SELECT pg_try_advisory_lock(4)",
        "SELECT query_to_xml('SELECT ' || 'leaks.le' || 'ak()', true, false, '')::text"}) {
    const Statement s = must_prepare(text);
    EXPECT_TRUE(s.may_change_session) << text;
    const Rows rows = fetch(s);
    EXPECT_FALSE(rows.error) << text << rows.error->message;
    expect_unchanged(text);
  }
  for (const char* text :
       {"SELECT n FROM leaks.plain", "SELECT leaks.harmless(-1)", "SELECT mood, n FROM leaks.moods",
        "SELECT count(*) FROM pg_settings", "SELECT lower(relname) FROM pg_class WHERE relname = :name",
        "SELECT leaks.on_write"
        " FROM (SELECT 1 AS on_write) leaks",
        "SELECT pg_advisory_xact_lock(1)"}) {
    EXPECT_FALSE(must_prepare(text).may_change_session) << text;
  }
  Cluster::shared().psql(
      "CREATE FUNCTION leaks.plus(int, int) RETURNS int LANGUAGE sql AS 'SELECT $1 + leaks.leak()';"
      "CREATE OPERATOR leaks.### (leftarg = int, rightarg = int, function = leaks.plus)");
  EXPECT_TRUE(must_prepare("SELECT 1 OPERATOR(leaks.###) 2").may_change_session);
}

// A slow look-up delays those behind it in the pipeline, so it is cancelled once its client has left.
TEST_F(PostgresTest, AnAbandonedLookUpIsCancelledAndItsNeighboursAreAnswered) {
  Options chosen = options();
  chosen.slow_ms = 20;
  chosen.pool_size = 1;
  open(chosen);
  const std::string active =
      "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%abandoned look-up%' AND state = 'active' AND pid <> "
      "pg_backend_pid()";
  for (const bool by_deadline : {false, true}) {
    // New statements, because one that was slow is not shared.
    const Statement slow = must_prepare("SELECT pg_sleep(1000), 'abandoned look-up'", true);
    const Statement quick = must_prepare("SELECT :k::int", true);
    const std::uint64_t cancels = database->counters().cancels;
    Rows slow_rows;
    core::TaskGroup leaving;
    std::vector<Rows> quick_rows(30);
    leaving.spawn(collect(*database, slow, {}, slow_rows, {by_deadline ? reactor->now() + 100ms : never}));
    for (std::size_t i = 0; i < quick_rows.size(); ++i) {
      tasks.spawn(collect(*database, quick, {std::to_string(i)}, quick_rows[i]));
    }
    if (!by_deadline) {
      ASSERT_TRUE(turn_until([&] { return Cluster::shared().psql(active) == "1\n"; }));
      EXPECT_EQ(tasks.size(), quick_rows.size()) << "they are behind it";
      leaving.cancel();
    }
    settle();
    for (std::size_t i = 0; i < quick_rows.size(); ++i) {
      ASSERT_FALSE(quick_rows[i].error) << quick_rows[i].error->message;
      EXPECT_EQ(quick_rows[i].rows, (std::vector<Row>{{std::to_string(i)}}));
    }
    EXPECT_EQ(Cluster::shared().psql(active), "0\n");
    EXPECT_GT(database->counters().cancels, cancels);
    if (by_deadline) {
      ASSERT_TRUE(slow_rows.error);
      EXPECT_EQ(slow_rows.error->failure, Failure::timed_out);
    }
  }
  EXPECT_EQ(database->counters().exclusive_requests, 0u);
  EXPECT_EQ(database->counters().lost, 0u);
}

class PostgresBatchTest : public PostgresTest, public testing::WithParamInterface<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Batch, PostgresBatchTest, testing::Values(1, 8));

TEST_P(PostgresBatchTest, AbandonedLookUpsBehindEachOtherAreAllCancelled) {
  Options chosen = options();
  chosen.slow_ms = 20;
  chosen.pool_size = 1;
  chosen.batch = GetParam();
  open(chosen);
  const Statement slow = must_prepare("SELECT pg_sleep(1000)", true);
  const Statement quick = must_prepare("SELECT :k::int", true);
  core::TaskGroup leaving;
  std::vector<Rows> slow_rows(4);
  std::vector<Rows> quick_rows(12);
  for (std::size_t i = 0; i < quick_rows.size(); ++i) {
    if (i % 3 == 0) leaving.spawn(collect(*database, slow, {}, slow_rows[i / 3]));
    tasks.spawn(collect(*database, quick, {std::to_string(i)}, quick_rows[i]));
  }
  turn_for(30ms);
  leaving.cancel();
  settle();
  for (std::size_t i = 0; i < quick_rows.size(); ++i) {
    ASSERT_FALSE(quick_rows[i].error) << quick_rows[i].error->message;
    EXPECT_EQ(quick_rows[i].rows, (std::vector<Row>{{std::to_string(i)}}));
  }
  EXPECT_GE(database->counters().cancels, 1u);  // a cancel that hits Parse ends all requests after it
  EXPECT_EQ(database->counters().lost, 0u);
}

TEST_F(PostgresTest, AQueryOverItsDeadlineIsCancelledAndTimedOut) {
  const Statement s = must_prepare("SELECT pg_sleep(30), 'too slow' AS x");
  const Rows rows = fetch(s, {}, {reactor->now() + 100ms});
  ASSERT_TRUE(rows.error);
  EXPECT_EQ(rows.error->failure, Failure::timed_out);
  const std::string active =
      "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%too slow%' AND state = 'active' AND pid <> "
      "pg_backend_pid()";
  EXPECT_TRUE(turn_until([&] { return Cluster::shared().psql(active) == "0\n"; }));
}

TEST_F(PostgresTest, TheServersOwnTimeoutEndsASharedQueryAndNotItsNeighbours) {
  Options chosen = options();
  chosen.pool_size = 1;
  chosen.statement_timeout_ms = 300;
  open(chosen);
  const Statement slow = must_prepare("SELECT pg_sleep(30)", true);
  const Statement quick = must_prepare("SELECT 'quick'", true);
  Rows slow_rows;
  std::vector<Rows> quick_rows(10);
  for (int i = 0; i < 5; ++i) tasks.spawn(collect(*database, quick, {}, quick_rows[static_cast<std::size_t>(i)]));
  tasks.spawn(collect(*database, slow, {}, slow_rows));
  for (int i = 5; i < 10; ++i) tasks.spawn(collect(*database, quick, {}, quick_rows[static_cast<std::size_t>(i)]));
  settle();
  ASSERT_TRUE(slow_rows.error);
  EXPECT_EQ(slow_rows.error->failure, Failure::timed_out);
  EXPECT_EQ(slow_rows.error->sqlstate, "57014");
  for (const Rows& rows : quick_rows) {
    EXPECT_FALSE(rows.error);
    EXPECT_EQ(rows.rows, (std::vector<Row>{{"quick"}}));
  }
  EXPECT_EQ(database->counters().lost, 0u);
}

// statement_timeout runs until the last row is sent; it must not end a slow client's stream.
TEST_F(PostgresTest, ASlowStreamOutlivesTheStatementTimeout) {
  Options chosen = options();
  chosen.statement_timeout_ms = 300;
  open(chosen);
  const Statement s = must_prepare("SELECT repeat('x', 1000) FROM generate_series(1, 20000)");
  std::size_t rows = 0;
  bool failed = false;
  run([](PostgresTest& test, const Statement& statement, std::size_t& count, bool& broke) -> Task<void> {
    auto cursor = co_await test.database->query(statement, {}, {});
    EXPECT_TRUE(cursor);
    if (!cursor) co_return;
    for (int i = 0;; ++i) {
      auto block = co_await (*cursor)->next();
      broke = !block;
      if (!block) co_return;
      count += block->rows;
      if (block->last) co_return;
      if (i == 3) {
        // No rows are pulled for longer than the timeout.
        net::Stream nobody(*test.reactor);
        (void)co_await nobody.readable(test.reactor->now() + 700ms);
      }
    }
  }(*this, s, rows, failed));
  EXPECT_FALSE(failed);
  EXPECT_EQ(rows, 20'000u);
}

TEST_F(PostgresTest, ARowOfAHundredMegabytes) {
  const Statement s = must_prepare("SELECT repeat('0123456789', 10000000), :k::int");
  for (int i = 0; i < 2; ++i) {
    const Rows rows = fetch(s, {"7"});
    ASSERT_FALSE(rows.error) << rows.error->message;
    ASSERT_EQ(rows.rows.size(), 1u);
    EXPECT_EQ(rows.rows[0][0]->size(), 100'000'000u);
    EXPECT_EQ(rows.rows[0][0]->substr(99'999'990), "0123456789");
    EXPECT_EQ(rows.rows[0][1], "7");
  }
  Options chosen = options();
  chosen.max_row_bytes = 1 << 20;
  open(chosen);
  const Rows refused = fetch(must_prepare("SELECT repeat('0123456789', 10000000), :k::int"), {"7"});
  ASSERT_TRUE(refused.error);
  EXPECT_EQ(refused.error->failure, Failure::statement);
  EXPECT_EQ(fetch(must_prepare("SELECT 1")).rows, (std::vector<Row>{{"1"}}));
}

TEST_F(PostgresTest, NoticesAndNotificationsComeAtAnyTime) {
  Cluster::shared().psql(
      "CREATE OR REPLACE FUNCTION loud(n int) RETURNS int LANGUAGE plpgsql AS "
      "$$ BEGIN RAISE NOTICE 'called with %', n; PERFORM set_config('application_name', 'renamed', false); RETURN n; "
      "END $$");
  const Statement shared = must_prepare("SELECT loud(:n::int)", true);
  std::vector<Rows> answers(30);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    tasks.spawn(collect(*database, shared, {std::to_string(i)}, answers[i]));
  }
  settle();
  for (std::size_t i = 0; i < answers.size(); ++i) {
    EXPECT_EQ(answers[i].rows, (std::vector<Row>{{std::to_string(i)}}));
  }
  const Rows stream = fetch(must_prepare("SELECT loud(n) FROM generate_series(1, 3000) n"));
  EXPECT_EQ(stream.rows.size(), 3000u);
  EXPECT_EQ(database->counters().notices, 3030u);
  (void)fetch(must_prepare("LISTEN news"));
  Cluster::shared().psql("NOTIFY news, 'hello'");
  EXPECT_TRUE(turn_until([&] { return database->counters().notifications == 1; }));
  EXPECT_EQ(fetch(shared, {"5"}).rows, (std::vector<Row>{{"5"}}));
}

TEST_F(PostgresTest, APlanThatHasGoneStaleIsPreparedAgain) {
  // One connection, so that DEALLOCATE affects the session with the statements.
  Options one_connection = options();
  one_connection.pool_size = 1;
  open(one_connection);
  Cluster::shared().psql(
      "DROP TABLE IF EXISTS stale; CREATE TABLE stale (a int, b text); INSERT INTO stale VALUES (1, 'x')");
  const Statement s = must_prepare("SELECT * FROM stale WHERE a = :a", true);
  EXPECT_EQ(fetch(s, {"1"}).rows, (std::vector<Row>{{"1", "x"}}));
  // Same columns, new plan: no visible effect.
  Cluster::shared().psql("ALTER TABLE stale ADD COLUMN c int; ALTER TABLE stale DROP COLUMN c");
  EXPECT_EQ(fetch(s, {"1"}).rows, (std::vector<Row>{{"1", "x"}}));
  // The session's statements were discarded.
  (void)fetch(must_prepare("DEALLOCATE ALL", true));
  EXPECT_EQ(fetch(s, {"1"}).rows, (std::vector<Row>{{"1", "x"}}));
  EXPECT_GE(database->counters().reprepared, 1u);
}

// As after a reload of the configuration: the connections stay, and the statements are new.
TEST_F(PostgresTest, AStatementThatTakesTheSlotOfAnotherIsAnother) {
  for (const std::size_t batch : {std::size_t{1}, std::size_t{16}}) {
    Options chosen = options();
    chosen.pool_size = 1;
    chosen.batch = batch;
    open(chosen);
    const Statement stays = must_prepare("SELECT 'stays', :k::text", true);
    std::optional<StatementId> last;
    for (int i = 0; i < 20; ++i) {
      const std::string number = std::to_string(i);
      const Statement one = must_prepare("SELECT " + number + ", :k::text AS \"" + number + "\"", true);
      EXPECT_TRUE(!last || (one.id.slot == last->slot && one.id.serial > last->serial));
      last = one.id;
      EXPECT_EQ(must_prepare("SELECT 'stays', :k::text", true).id, stays.id);
      std::vector<Rows> answers(8);
      for (Rows& answer : answers) tasks.spawn(collect(*database, &answer == &answers[3] ? stays : one, {"x"}, answer));
      // Every other time the requests are abandoned before the answers arrive.
      if (i % 2 == 0) {
        turn_until([&] { return answers[1].blocks != 0 || i % 4 == 0; });
        tasks.cancel();
        settle();
      }
      settle();
      for (Rows& answer : answers) {
        const bool other = &answer == &answers[3];
        if (i % 2 == 0 && answer.rows.empty()) continue;
        EXPECT_EQ(answer.rows, (std::vector<Row>{{other ? "stays" : number, "x"}}))
            << (answer.error ? answer.error->message : "");
        EXPECT_EQ(answer.columns, (other ? stays : one).columns.data());
      }
    }
    const Statement count = must_prepare("SELECT count(*)::text FROM pg_prepared_statements", true);
    EXPECT_EQ(fetch(count).rows, (std::vector<Row>{{"2"}})) << "the server has no others";
  }
}

TEST_F(PostgresTest, WhatIsKnownOfAStatementGoesWithIt) {
  Options chosen = options();
  chosen.pool_size = 1;
  open(chosen);
  Cluster::shared().psql(
      "DROP TABLE IF EXISTS two, three; CREATE TABLE two (a int, b int); INSERT INTO two VALUES (1, 2)");
  std::optional<Statement> s = must_prepare("SELECT * FROM two", true);
  const StatementId id = s->id;
  Cluster::shared().psql("ALTER TABLE two RENAME b TO c");
  EXPECT_EQ(fetch(*s).names, (std::vector<std::string>{"a", "c"}));
  s = must_prepare("SELECT * FROM two", true);  // has the new columns, so it is another statement
  EXPECT_NE(s->id, id);
  s.reset();
  for (int i = 0; i < 2; ++i) {
    s.reset();
    s = must_prepare("SELECT * FROM two WHERE a = " + std::to_string(i), true);
    EXPECT_LE(s->id.slot, 1u);
    EXPECT_EQ(fetch(*s).columns, s->columns.data());
  }
}

using Names = std::vector<std::string>;
using Forms = std::vector<Form>;

// The ways in which a statement may be executed.
struct Way {
  std::string name;
  bool one_row;  // shared
  std::size_t pool_size;
  bool prepared;
  std::size_t batch = 1;
};
const std::vector<Way> ways = {
    {"shared", true, 8, true},       {"shared, one connection", true, 1, true},
    {"exclusive", false, 8, true},   {"exclusive, one connection", false, 1, true},
    {"unprepared", false, 8, false}, {"in a batch", true, 1, true, 16},
};

class ChangingColumns : public PostgresTest {
 public:
  void open(const Way& way) {
    Options chosen = options();
    chosen.pool_size = way.pool_size;
    chosen.prepared = way.prepared;
    chosen.batch = way.batch;
    chosen.wait_ms = 20'000;
    PostgresTest::open(chosen);
  }
  // Sends several requests at once and checks that all get the same answer.
  Rows ask(const Statement& statement) {
    std::vector<Rows> answers(6);
    for (Rows& answer : answers) tasks.spawn(collect(*database, statement, {"1"}, answer));
    settle();
    for (const Rows& answer : answers) {
      EXPECT_FALSE(answer.error) << answer.error->message;
      EXPECT_EQ(answer.columns, answers[0].columns);
      EXPECT_EQ(answer.rows, answers[0].rows);
    }
    return answers[0];
  }
  void alter(const std::string& what) { Cluster::shared().psql("ALTER TABLE changing " + what); }
};

TEST_F(ChangingColumns, AreAnsweredAsTheyAre) {
  for (const Way& way : ways) {
    SCOPED_TRACE(way.name);
    open(way);
    Cluster::shared().psql(
        "DROP TABLE IF EXISTS changing; CREATE TABLE changing (a int, b text); INSERT INTO changing VALUES (1, 'x')");
    const Statement s = must_prepare("SELECT * FROM changing WHERE a::text = :a", way.one_row);
    Rows rows = ask(s);
    EXPECT_EQ(rows.rows, (std::vector<Row>{{"1", "x"}}));
    EXPECT_EQ(rows.columns, s.columns.data());

    alter("ADD COLUMN c boolean DEFAULT true");
    rows = ask(s);
    EXPECT_EQ(rows.names, (Names{"a", "b", "c"}));
    EXPECT_EQ(rows.forms, (Forms{Form::number, Form::text, Form::boolean}));
    EXPECT_EQ(rows.rows, (std::vector<Row>{{"1", "x", "t"}}));
    const Column* const with_c = rows.columns;

    alter("DROP COLUMN b");
    rows = ask(s);
    EXPECT_EQ(rows.names, (Names{"a", "c"}));
    EXPECT_EQ(rows.rows, (std::vector<Row>{{"1", "t"}}));

    alter("RENAME COLUMN c TO d");
    rows = ask(s);
    EXPECT_EQ(rows.names, (Names{"a", "d"}));

    alter("ALTER COLUMN a TYPE text");
    rows = ask(s);
    EXPECT_EQ(rows.names, (Names{"a", "d"}));
    EXPECT_EQ(rows.forms, (Forms{Form::text, Form::boolean}));

    // Back to earlier lists.
    alter("ALTER COLUMN a TYPE int USING a::int, DROP COLUMN d, ADD COLUMN b text DEFAULT 'y'");
    rows = ask(s);
    EXPECT_EQ(rows.columns, s.columns.data());
    EXPECT_EQ(rows.rows, (std::vector<Row>{{"1", "y"}}));
    alter("ADD COLUMN c boolean DEFAULT false");
    rows = ask(s);
    EXPECT_EQ(rows.columns, with_c);
    EXPECT_EQ(rows.names, (Names{"a", "b", "c"}));
    EXPECT_EQ(rows.rows, (std::vector<Row>{{"1", "y", "f"}}));
    EXPECT_EQ(database->counters().look_ups, 0u) << "types that are built in need none";
    EXPECT_EQ(database->counters().lost, 0u);
  }
}

TEST_F(ChangingColumns, MayBeOfTypesOfTheDatabasesOwn) {
  for (const Way& way : ways) {
    SCOPED_TRACE(way.name);
    open(way);
    Cluster::shared().psql(
        "DROP TABLE IF EXISTS changing; DROP SCHEMA IF EXISTS own CASCADE; CREATE SCHEMA own;"
        "CREATE TYPE own.mood AS ENUM ('sad', 'ok'); CREATE TYPE own.other AS ENUM ('sad', 'ok');"
        "CREATE TYPE own.pair AS (n int, m own.mood);"
        "CREATE TABLE changing (a int, b text); INSERT INTO changing VALUES (1, 'ok')");
    const Statement s = must_prepare("SELECT * FROM changing WHERE a::text = :a", way.one_row);
    std::uint64_t look_ups = 0;
    const auto ask_after_change = [&] {
      if (!way.prepared) {
        // The statement may have written, so it is not repeated, but later requests know its columns.
        const Rows refused = fetch(s, {"1"});
        EXPECT_TRUE(refused.error);
        if (refused.error) EXPECT_EQ(refused.error->failure, Failure::statement);
        EXPECT_TRUE(refused.rows.empty());
      }
      const Rows rows = ask(s);
      EXPECT_EQ(database->counters().look_ups, ++look_ups) << "one for all who wait";
      return rows;
    };
    ASSERT_FALSE(ask(s).error);

    alter("ALTER COLUMN b TYPE own.mood USING b::own.mood");
    Rows rows = ask_after_change();
    EXPECT_EQ(rows.rows, (std::vector<Row>{{"1", "ok"}}));
    EXPECT_NE(rows.columns, s.columns.data());
    const Column* const with_mood = rows.columns;

    // From one user-defined type to another.
    alter("ALTER COLUMN b TYPE own.other USING b::text::own.other");
    rows = ask_after_change();
    EXPECT_NE(rows.columns, with_mood);
    alter("ALTER COLUMN b TYPE own.mood[] USING ARRAY[b::text::own.mood]");
    rows = ask_after_change();
    EXPECT_EQ(rows.forms, (Forms{Form::number, Form::array}));
    EXPECT_EQ(rows.columns[1].type->element->form, Form::text);
    EXPECT_EQ(rows.rows, (std::vector<Row>{{"1", "{ok}"}}));
    alter("ALTER COLUMN b TYPE own.pair USING ROW(7, b[1])::own.pair");
    rows = ask_after_change();
    ASSERT_EQ(rows.forms, (Forms{Form::number, Form::composite}));
    ASSERT_EQ(rows.columns[1].type->attributes.size(), 2u);
    EXPECT_EQ(rows.columns[1].type->attributes[0].type->form, Form::number);
    EXPECT_EQ(rows.rows, (std::vector<Row>{{"1", "(7,ok)"}}));

    // An earlier list is known.
    alter("ALTER COLUMN b TYPE own.mood USING (b).m");
    rows = ask(s);
    EXPECT_EQ(rows.columns, with_mood);
    alter("ALTER COLUMN b TYPE text");
    EXPECT_EQ(ask(s).columns, s.columns.data());
    EXPECT_EQ(database->counters().look_ups, look_ups);
    EXPECT_EQ(database->counters().lost, 0u);
  }
}

TEST_F(ChangingColumns, OfAStatementThatWasPreparedWithTypesOfTheDatabasesOwn) {
  for (const Way& way : ways) {
    SCOPED_TRACE(way.name);
    open(way);
    Cluster::shared().psql(
        "DROP TABLE IF EXISTS changing; DROP SCHEMA IF EXISTS own CASCADE; CREATE SCHEMA own;"
        "CREATE TYPE own.mood AS ENUM ('sad', 'ok'); CREATE TYPE own.pair AS (n int, t text);"
        "CREATE TABLE changing (a int, b own.mood); INSERT INTO changing VALUES (1, 'ok')");
    const Statement s = must_prepare("SELECT * FROM changing WHERE a::text = :a", way.one_row);
    EXPECT_EQ(ask(s).columns, s.columns.data());
    alter("ALTER COLUMN b TYPE own.pair USING ROW(1, 'x')::own.pair");
    if (!way.prepared) (void)fetch(s, {"1"});
    EXPECT_EQ(ask(s).forms, (Forms{Form::number, Form::composite}));
    alter("ALTER COLUMN b TYPE own.mood USING 'sad'::own.mood");
    EXPECT_EQ(ask(s).columns, s.columns.data());
  }
}

TEST_F(ChangingColumns, AreFoundOnEveryConnection) {
  Way way = ways[2];
  way.pool_size = 4;
  open(way);
  Cluster::shared().psql(
      "DROP TABLE IF EXISTS changing; CREATE TABLE changing (a int, b int);"
      "INSERT INTO changing SELECT n, n FROM generate_series(1, 20000) n");
  const Statement s = must_prepare("SELECT * FROM changing WHERE :a::text <> ''");
  EXPECT_EQ(ask(s).rows.size(), 20'000u);
  EXPECT_GT(database->open_connections(), 2u);
  alter("ADD COLUMN c int");
  const Rows rows = ask(s);
  EXPECT_EQ(rows.rows.size(), 20'000u);
  EXPECT_EQ(rows.names, (Names{"a", "b", "c"}));
  EXPECT_GT(rows.blocks, 1u);
}

TEST_F(ChangingColumns, WhenNoneAreLeftTheStatementFailsUntilThereAreSome) {
  for (const Way& way : ways) {
    SCOPED_TRACE(way.name);
    open(way);
    Cluster::shared().psql(
        "DROP TABLE IF EXISTS changing; CREATE TABLE changing (a int); INSERT INTO changing VALUES (1)");
    const Statement s = must_prepare("SELECT * FROM changing WHERE :a::text <> ''", way.one_row);
    EXPECT_EQ(ask(s).rows, (std::vector<Row>{{"1"}}));
    alter("DROP COLUMN a");
    std::vector<Rows> answers(5);
    for (Rows& answer : answers) tasks.spawn(collect(*database, s, {"1"}, answer));
    settle();
    for (const Rows& answer : answers) {
      ASSERT_TRUE(answer.error);
      EXPECT_EQ(answer.error->failure, Failure::statement);
      EXPECT_NE(answer.error->message.find("no columns"), std::string::npos) << answer.error->message;
    }
    alter("ADD COLUMN b int DEFAULT 2");
    const Rows rows = ask(s);
    EXPECT_EQ(rows.names, (Names{"b"}));
    EXPECT_EQ(rows.rows, (std::vector<Row>{{"2"}}));
    EXPECT_EQ(database->counters().lost, 0u);
  }
}

TEST_F(ChangingColumns, RecoverWhenTheCatalogCanBeReadAgain) {
  auto chosen = options_from_url(Cluster::shared().tcp_url("scram_user", "secret s"));
  ASSERT_TRUE(chosen);
  PostgresTest::open(*chosen);
  Cluster::shared().psql(
      "DROP TABLE IF EXISTS changing; DROP SCHEMA IF EXISTS own CASCADE; CREATE SCHEMA own;"
      "CREATE TYPE own.mood AS ENUM ('sad', 'ok'); GRANT USAGE ON SCHEMA own TO scram_user;"
      "CREATE TABLE changing (a int, b text); INSERT INTO changing VALUES (1, 'ok');"
      "GRANT SELECT ON changing TO scram_user");
  const Statement s = must_prepare("SELECT * FROM changing", true);
  EXPECT_EQ(fetch(s).rows, (std::vector<Row>{{"1", "ok"}}));
  Cluster::shared().psql("REVOKE SELECT ON pg_catalog.pg_type FROM PUBLIC");
  alter("ALTER COLUMN b TYPE own.mood USING b::own.mood");
  std::vector<Rows> answers(5);
  for (Rows& answer : answers) tasks.spawn(collect(*database, s, {}, answer));
  settle();
  Cluster::shared().psql("GRANT SELECT ON pg_catalog.pg_type TO PUBLIC");
  for (const Rows& answer : answers) {
    ASSERT_TRUE(answer.error);
    EXPECT_EQ(answer.error->sqlstate, "42501");
    EXPECT_EQ(answer.error->failure, Failure::statement);
  }
  EXPECT_EQ(fetch(s).rows, (std::vector<Row>{{"1", "ok"}}));
}

// Clients may disconnect at any moment of the change.
TEST_F(ChangingColumns, DoNotNeedTheirClients) {
  for (const Way& way : ways) {
    if (!way.prepared) continue;
    SCOPED_TRACE(way.name);
    open(way);
    Cluster::shared().psql(
        "DROP TABLE IF EXISTS changing; DROP SCHEMA IF EXISTS own CASCADE; CREATE SCHEMA own;"
        "CREATE TABLE changing (a int, b text); INSERT INTO changing VALUES (1, 'ok')");
    const Statement s = must_prepare("SELECT * FROM changing", way.one_row);
    for (int turns = 0; turns < 12; ++turns) {
      const std::string type = "own.mood" + std::to_string(turns);
      Cluster::shared().psql("CREATE TYPE " + type + " AS ENUM ('ok'); ALTER TABLE changing ALTER COLUMN b TYPE " +
                             type + " USING b::text::" + type);
      std::vector<Rows> lost(5);
      std::vector<Rows> answers(2);
      core::TaskGroup leaving;
      for (std::size_t i = 0; i < lost.size(); ++i) {
        leaving.spawn(collect(*database, s, {}, lost[i]));
        if (i < answers.size()) tasks.spawn(collect(*database, s, {}, answers[i]));
      }
      for (int i = 0; i < turns; ++i) reactor->turn(reactor->now() + 1ms);
      leaving.cancel();
      settle();
      for (const Rows& answer : answers) {
        ASSERT_FALSE(answer.error) << answer.error->message;
        EXPECT_EQ(answer.rows, (std::vector<Row>{{"1", "ok"}}));
      }
    }
    // The database may be destroyed during the change.
    Cluster::shared().psql("ALTER TABLE changing ALTER COLUMN b TYPE own.mood0 USING b::text::own.mood0");
    Cluster::shared().psql(
        "CREATE TYPE own.last AS ENUM ('ok'); ALTER TABLE changing ALTER COLUMN b TYPE own.last USING "
        "b::text::own.last");
    core::TaskGroup leaving;
    Rows lost;
    leaving.spawn(collect(*database, s, {}, lost));
    (void)turn_until([&] { return database->counters().look_ups == 13; });
    leaving.cancel();
    database.reset();
  }
}

TEST_F(PostgresTest, AStatementThatCannotBeParsedAnyMoreRecoversWhenItCan) {
  Cluster::shared().psql("DROP TABLE IF EXISTS gone; CREATE TABLE gone (a int); INSERT INTO gone VALUES (1)");
  const Statement s = must_prepare("SELECT a FROM gone", true);
  Cluster::shared().psql("DROP TABLE gone");
  std::vector<Rows> answers(5);
  for (Rows& answer : answers) tasks.spawn(collect(*database, s, {}, answer));
  settle();
  for (const Rows& answer : answers) {
    ASSERT_TRUE(answer.error);
    EXPECT_EQ(answer.error->sqlstate, "42P01");
  }
  Cluster::shared().psql("CREATE TABLE gone (a int); INSERT INTO gone VALUES (2)");
  EXPECT_EQ(fetch(s).rows, (std::vector<Row>{{"2"}}));
}

TEST_F(PostgresTest, SessionsAreReadOnlyAndOpenTransactionsEndTheConnection) {
  Cluster::shared().psql("DROP TABLE IF EXISTS guarded; CREATE TABLE guarded (a int)");
  const Rows refused = fetch(must_prepare("INSERT INTO guarded VALUES (1)"));
  ASSERT_TRUE(refused.error);
  EXPECT_EQ(refused.error->sqlstate, "25006");
  Statement begin = must_prepare("SELECT 1", true);
  begin.text = "BEGIN";  // which prepare() refuses
  database->give_id(begin);
  begin.columns.clear();
  (void)fetch(begin);
  EXPECT_TRUE(turn_until([&] { return database->counters().lost == 1; }));
  EXPECT_EQ(fetch(must_prepare("SELECT 1", true)).rows, (std::vector<Row>{{"1"}}));
}

TEST_F(PostgresTest, AuthenticatesByEveryMethodThatIsAllowed) {
  const auto try_url = [&](const std::string& url, bool cleartext = false) {
    auto chosen = options_from_url(url);
    EXPECT_TRUE(chosen) << chosen.error();
    chosen->allow_cleartext_password = cleartext;
    open(*chosen);
    const auto statement = prepare("SELECT current_user");
    return statement ? *fetch(*statement).rows.at(0).at(0) : statement.error().sqlstate;
  };
  const Cluster& cluster = Cluster::shared();
  EXPECT_EQ(try_url(cluster.tcp_url("postgres", "")), "postgres");
  EXPECT_EQ(try_url(cluster.tcp_url("md5_user", "secret m")), "md5_user");
  EXPECT_EQ(try_url(cluster.tcp_url("scram_user", "secret s")), "scram_user");
  EXPECT_EQ(try_url(cluster.tcp_url("clear_user", "secret c"), true), "clear_user");
  EXPECT_EQ(try_url(cluster.tcp_url("md5_user", "wrong")), "28P01");
  EXPECT_EQ(try_url(cluster.tcp_url("scram_user", "wrong")), "28P01");
  EXPECT_EQ(try_url(cluster.tcp_url("clear_user", "secret c")), "28000");
  EXPECT_EQ(
      try_url("postgres://postgres@/nowhere?host=" + cluster.directory() + "&port=" + std::to_string(cluster.port())),
      "3D000");
}

// Repeats tests of unencrypted connections over TLS.
class PostgresTlsTest : public PostgresTest {
 public:
  static void SetUpTestSuite() {
    authority = std::make_unique<net::tls::testing::Authority>();
    const auto files = authority->issue("server");
    Cluster::shared().use_tls(files.certificate, files.key);
  }
  static void TearDownTestSuite() {
    Cluster::shared().use_tls({}, {});
    authority.reset();
  }
  static Options tls_options() {
    auto made = options_from_url("postgres://postgres@localhost:" + std::to_string(Cluster::shared().port()) +
                                 "/postgres?sslmode=verify-full&sslrootcert=" + authority->file());
    EXPECT_TRUE(made) << made.error();
    made->slow_ms = 60'000;
    made->wait_ms = made->connect_timeout_ms = 20'000;
    return *made;
  }
  static inline std::unique_ptr<net::tls::testing::Authority> authority;
};

TEST_F(PostgresTlsTest, LookUpsAndStreamsAreWhole) {
  for (const std::size_t batch : {1, 8}) {
    Options chosen = tls_options();
    chosen.batch = batch;
    open(chosen);
    const Statement version = must_prepare("SELECT ssl, version FROM pg_stat_ssl WHERE pid = pg_backend_pid()", true);
    EXPECT_EQ(fetch(version).rows, (std::vector<Row>{{"t", "TLSv1.3"}}));
    const Statement one = must_prepare("SELECT :n::int * 2, repeat('z', :n::int)", true);
    const Statement many = must_prepare("SELECT n, repeat('y', n % 50) FROM generate_series(1, 60000) n");
    std::vector<Rows> ones(300);
    Rows all[2];
    for (std::size_t i = 0; i < ones.size(); ++i) {
      tasks.spawn(collect(*database, one, {std::to_string(i)}, ones[i]));
      if (i % 150 == 20) tasks.spawn(collect(*database, many, {}, all[i / 150]));
    }
    settle(60s);
    for (std::size_t i = 0; i < ones.size(); ++i) {
      EXPECT_EQ(ones[i].rows, (std::vector<Row>{{std::to_string(2 * i), std::string(i, 'z')}}));
    }
    for (const Rows& rows : all) {
      ASSERT_FALSE(rows.error) << rows.error->message;
      ASSERT_EQ(rows.rows.size(), 60'000u);
      for (std::size_t i = 0; i < rows.rows.size(); ++i) {
        ASSERT_EQ(rows.rows[i], (Row{std::to_string(i + 1), std::string((i + 1) % 50, 'y')}));
      }
    }
    EXPECT_EQ(database->counters().lost, 0u);
  }
}

// More bytes than the socket takes at once, in both directions.
TEST_F(PostgresTlsTest, LargeValuesGoThere) {
  open(tls_options());
  const Statement s = must_prepare("SELECT md5(:a::text), :a::text", true);
  const std::string md5 = "SELECT md5(repeat('0123456789', 2000000))";
  std::string large;
  large.reserve(20'000'000);
  for (int i = 0; i < 2'000'000; ++i) large += "0123456789";
  const Rows rows = fetch(s, {large});
  ASSERT_FALSE(rows.error) << rows.error->message;
  EXPECT_EQ(*rows.rows.at(0).at(0) + "\n", Cluster::shared().psql(md5));
  EXPECT_TRUE(rows.rows[0][1] == large);
}

TEST_F(PostgresTlsTest, WhatNobodyReadsIsCancelledAndTheConnectionGoesOn) {
  Options chosen = tls_options();
  chosen.pool_size = 1;
  open(chosen);
  const Statement endless = must_prepare("SELECT generate_series(1, 1000000000) AS n, repeat('x', 1000)");
  const Statement one = must_prepare("SELECT 1", true);
  std::unique_ptr<Cursor> cursor;
  tasks.spawn([](sql::Database& db, const Statement& statement, std::unique_ptr<Cursor>& into) -> Task<void> {
    auto made = co_await db.query(statement, {}, {});
    if (made) into = std::move(*made);
  }(*database, endless, cursor));
  settle();
  ASSERT_TRUE(cursor);
  cursor.reset();
  EXPECT_EQ(fetch(one).rows, (std::vector<Row>{{"1"}}));
  EXPECT_EQ(database->counters().cancels, 1u);
  EXPECT_EQ(database->counters().opened, 1u);
  EXPECT_EQ(database->counters().lost, 0u);
}

TEST_F(PostgresTlsTest, AnEndedSessionIsReplaced) {
  open(tls_options());
  const Statement one = must_prepare("SELECT 1", true);
  Cluster::shared().psql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'sluice'");
  EXPECT_TRUE(turn_until([&] { return database->counters().lost == 1; }));
  EXPECT_EQ(fetch(one).rows, (std::vector<Row>{{"1"}}));
  EXPECT_EQ(database->counters().opened, 2u);
}

TEST_F(PostgresTest, AWrongPasswordIsToldAtOnce) {
  auto chosen = options_from_url(Cluster::shared().tcp_url("scram_user", "wrong"));
  chosen->wait_ms = 10'000;
  open(*chosen);
  const Instant before = reactor->now();
  const auto refused = prepare("SELECT 1");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().failure, Failure::unavailable);
  EXPECT_LT(reactor->now() - before, 2s);
}

TEST_F(PostgresTest, RequestsWaitForAConnectionAndFailWhenNoneCanBeHad) {
  Options chosen = options();
  chosen.pool_size = 2;
  chosen.wait_ms = 150;
  chosen.wait_limit = 3;
  open(chosen);
  const Statement s = must_prepare("SELECT n, repeat('y', 1000) FROM generate_series(1, 50000) n");
  // With two connections, one stream at a time: the other connection is reserved for short requests.
  std::unique_ptr<Cursor> cursor;
  tasks.spawn([](sql::Database& db, const Statement& statement, std::unique_ptr<Cursor>& into) -> Task<void> {
    auto made = co_await db.query(statement, {}, {});
    if (made) into = std::move(*made);
  }(*database, s, cursor));
  settle();
  ASSERT_TRUE(cursor);
  const Instant before = reactor->now();
  std::vector<Rows> waiting(5);
  for (Rows& rows : waiting) tasks.spawn(collect(*database, s, {}, rows));
  EXPECT_EQ(tasks.size(), 3u) << "beyond the limit the answer comes at once";
  const Rows quick = fetch(must_prepare("SELECT 1", true));
  EXPECT_EQ(quick.rows, (std::vector<Row>{{"1"}}));
  settle();
  EXPECT_GE(reactor->now() - before, 150ms);
  for (const Rows& rows : waiting) {
    ASSERT_TRUE(rows.error);
    EXPECT_EQ(rows.error->failure, Failure::unavailable);
  }
  // Waiting queries get the connection when it is free.
  Rows next;
  tasks.spawn(collect(*database, s, {}, next));
  turn_for(20ms);
  cursor.reset();
  settle();
  EXPECT_FALSE(next.error);
  EXPECT_EQ(next.rows.size(), 50'000u);
}

TEST_F(PostgresTest, OneConnectionServesStreamsAndShortRequestsInTurn) {
  Options chosen = options();
  chosen.pool_size = 1;
  chosen.wait_ms = 10'000;
  open(chosen);
  const Statement stream = must_prepare("SELECT n FROM generate_series(1, 20000) n");
  const Statement object = must_prepare("SELECT :k::int", true);
  std::vector<Rows> streams(10);
  std::vector<Rows> objects(100);
  for (std::size_t i = 0; i < objects.size(); ++i) {
    if (i % 10 == 0) tasks.spawn(collect(*database, stream, {}, streams[i / 10]));
    tasks.spawn(collect(*database, object, {std::to_string(i)}, objects[i]));
  }
  settle();
  for (const Rows& rows : streams) {
    EXPECT_FALSE(rows.error);
    EXPECT_EQ(rows.rows.size(), 20'000u);
  }
  for (std::size_t i = 0; i < objects.size(); ++i) EXPECT_EQ(objects[i].rows, (std::vector<Row>{{std::to_string(i)}}));
  EXPECT_EQ(database->counters().opened, 1u);
}

TEST_F(PostgresTest, WithoutPreparedStatementsEverythingRunsAlone) {
  Options chosen = options();
  chosen.prepared = false;
  open(chosen);
  const Statement s = must_prepare("SELECT :k::int, count(*) FROM pg_prepared_statements", true);
  std::vector<Rows> answers(50);
  for (std::size_t i = 0; i < answers.size(); ++i) tasks.spawn(collect(*database, s, {std::to_string(i)}, answers[i]));
  settle();
  for (std::size_t i = 0; i < answers.size(); ++i) {
    EXPECT_EQ(answers[i].rows, (std::vector<Row>{{std::to_string(i), "0"}}));
  }
  EXPECT_EQ(database->counters().shared_requests, 0u);
  std::optional<Result<void>> pong;
  run([](Database& db, Instant deadline, std::optional<Result<void>>& into) -> Task<void> {
    into = co_await db.ping(deadline);
  }(*database, reactor->now() + 1s, pong));
  EXPECT_TRUE(*pong);
}

TEST_F(PostgresTest, IdleConnectionsAreClosedButOne) {
  Options chosen = options();
  chosen.idle_ms = 1000;
  open(chosen);
  const Statement s = must_prepare("SELECT n FROM generate_series(1, 20000) n");
  std::vector<Rows> answers(5);
  for (Rows& rows : answers) tasks.spawn(collect(*database, s, {}, rows));
  settle();
  EXPECT_GT(database->open_connections(), 1u);
  EXPECT_TRUE(turn_until([&] { return database->open_connections() == 1; }));
  turn_for(1500ms);
  EXPECT_EQ(database->open_connections(), 1u);
}

TEST_F(PostgresTest, PingsAndComesBackAfterARestart) {
  Cluster& cluster = Cluster::shared();
  const auto ping = [&](Duration patience) {
    std::optional<Result<void>> pong;
    run([](Database& db, Instant deadline, std::optional<Result<void>>& into) -> Task<void> {
      into = co_await db.ping(deadline);
    }(*database, reactor->now() + patience, pong));
    return *pong;
  };
  Options chosen = options();
  chosen.wait_ms = 300;
  open(chosen);
  EXPECT_TRUE(ping(2s));
  const Statement object = must_prepare("SELECT :k::int", true);
  const Statement stream = must_prepare("SELECT generate_series(1, 1000000000), repeat('z', 100)");
  EXPECT_EQ(fetch(object, {"1"}).rows, (std::vector<Row>{{"1"}}));
  std::unique_ptr<Cursor> cursor;
  tasks.spawn([](sql::Database& db, const Statement& statement, std::unique_ptr<Cursor>& into) -> Task<void> {
    auto made = co_await db.query(statement, {}, {});
    if (made) into = std::move(*made);
  }(*database, stream, cursor));
  settle();
  ASSERT_TRUE(cursor);

  cluster.stop();
  // The stream ends with an error, so it does not look complete.
  std::optional<Error> error;
  run([](Cursor& from, std::optional<Error>& into) -> Task<void> {
    for (;;) {
      auto block = co_await from.next();
      if (!block) {
        into = block.error();
        co_return;
      }
      if (block->last) co_return;
    }
  }(*cursor, error));
  ASSERT_TRUE(error);
  EXPECT_EQ(error->failure, Failure::lost);
  cursor.reset();
  EXPECT_TRUE(turn_until([&] { return database->open_connections() == 0; })) << "an idle connection sees the end";
  const Rows meanwhile = fetch(object, {"1"});
  ASSERT_TRUE(meanwhile.error);
  EXPECT_EQ(meanwhile.error->failure, Failure::unavailable);
  EXPECT_FALSE(ping(100ms));
  // After a few failures to connect, requests no longer wait.
  const Instant still_away = reactor->now() + 2s;
  EXPECT_TRUE(turn_until([&] { return database->counters().open_failures >= 3 || reactor->now() > still_away; }));
  const Instant asked = reactor->now();
  const Rows refused = fetch(object, {"1"});
  ASSERT_TRUE(refused.error);
  EXPECT_EQ(refused.error->failure, Failure::unavailable);
  EXPECT_LT(reactor->now() - asked, 300ms) << "less than the wait that the options allow";

  cluster.start();
  EXPECT_TRUE(turn_until([&] { return database->open_connections() == 1; }));
  EXPECT_EQ(fetch(object, {"2"}).rows, (std::vector<Row>{{"2"}}));
  EXPECT_TRUE(ping(2s));
}

// Under load: every request gets its own row or an error, and none hangs.
TEST_P(PostgresBatchTest, ACrashUnderLoadCrossesNoAnswers) {
  Options chosen = options();
  chosen.wait_ms = 5000;
  chosen.batch = GetParam();
  open(chosen);
  const Statement object = must_prepare("SELECT :k::int, repeat(:k::text, 30)", true);
  struct Tally {
    std::size_t right = 0, wrong = 0, failed = 0;
    bool stop = false;
  } tally;
  for (int client = 0; client < 32; ++client) {
    tasks.spawn([](PostgresTest& test, const Statement& statement, int number, Tally& counts) -> Task<void> {
      for (int i = 0; !counts.stop; ++i) {
        Rows rows;
        const std::string key = std::to_string(number * 1'000'000 + i);
        const std::vector<std::optional<std::string>> values(1, key);
        co_await collect(*test.database, statement, values, rows);
        if (rows.error) {
          EXPECT_EQ(rows.error->failure, Failure::unavailable) << rows.error->message;
          ++counts.failed;
          co_await core::Sleep(*test.reactor, test.reactor->now() + 1ms);  // the refusal came at once
        } else {
          std::string expected;
          for (int n = 0; n < 30; ++n) expected += key;
          const bool right = rows.rows.size() == 1 && rows.rows[0].size() == 2 && rows.rows[0][0] == key &&
                             rows.rows[0][1] == expected;
          ++(right ? counts.right : counts.wrong);
        }
      }
    }(*this, object, client, tally));
  }
  turn_for(100ms);
  const std::size_t before = tally.right;
  Cluster::shared().kill();
  turn_for(100ms);
  Cluster::shared().start();
  EXPECT_TRUE(turn_until([&] { return tally.right > before + 1000; }));
  tally.stop = true;
  settle();
  EXPECT_EQ(tally.wrong, 0u);
  EXPECT_GT(database->counters().retries, 0u);
}

// A request may meet one ended session after another.
TEST_F(PostgresTest, ARequestSurvivesTheEndOfAllSessions) {
  Options chosen = options();
  chosen.pool_size = 4;
  open(chosen);
  const Statement slow = must_prepare("SELECT pg_sleep(0.1), generate_series(1, 3)");
  std::array<Rows, 4> rows;
  for (Rows& one : rows) tasks.spawn(collect(*database, slow, {}, one));
  settle();
  ASSERT_GE(database->open_connections(), 3U);
  const Statement s = must_prepare("SELECT 1", true);
  // The sessions have ended before the loop turns, so the pool does not know.
  Cluster::shared().psql(
      "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = 'sluice'");
  EXPECT_EQ(fetch(s).rows, (std::vector<Row>{{"1"}}));
}

TEST_F(PostgresTest, ATerminatedBackendIsReplaced) {
  const Statement s = must_prepare("SELECT pg_backend_pid()", true);
  const std::string pid = *fetch(s).rows.at(0).at(0);
  Cluster::shared().psql("SELECT pg_terminate_backend(" + pid + ")");
  const Rows rows = fetch(s);
  ASSERT_FALSE(rows.error) << rows.error->message;
  EXPECT_NE(rows.rows.at(0).at(0), pid);
}

TEST_F(PostgresTest, NobodyListens) {
  Cluster::shared();
  auto chosen = options_from_url("postgres://postgres@127.0.0.1:1/postgres");
  chosen->wait_ms = 200;
  open(*chosen);
  const auto refused = prepare("SELECT 1");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().failure, Failure::unavailable);
  EXPECT_NE(refused.error().message.find("127.0.0.1:1"), std::string::npos) << refused.error().message;
}

TEST_F(PostgresTest, CopyGivesNoRows) {
  for (const bool one_row : {true, false}) {
    const Rows rows = fetch(must_prepare("COPY (SELECT generate_series(1, 100000)) TO STDOUT", one_row));
    ASSERT_TRUE(rows.error);
    EXPECT_EQ(rows.error->failure, Failure::statement);
  }
  EXPECT_EQ(database->counters().lost, 0u);
  EXPECT_EQ(fetch(must_prepare("SELECT 1")).rows, (std::vector<Row>{{"1"}}));
}

}  // namespace
}  // namespace sluice::sql::postgres
