#include "sql/sqlite/database.h"

#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <sqlite3.h>

#include "sql/sqlite/test_support.h"

namespace sluice::sql {
namespace {

using sqlite::testing::add_rows;
using sqlite::testing::Loop;
using sqlite::testing::Rows;
using sqlite::testing::TempFile;
using sqlite::testing::texts;

constexpr std::string_view films =
    "CREATE TABLE films(id INTEGER PRIMARY KEY, slug TEXT UNIQUE, adult BOOLEAN, score REAL, blob JSON);"
    "INSERT INTO films VALUES(1, 'alien', 0, 8.5, '{\"year\":1979}'), (2, 'brazil', 1, 7, '{broken'), (3, 'caché', "
    "NULL, NULL, NULL);"
    "CREATE TABLE tags(film TEXT, tag TEXT, PRIMARY KEY(film, tag)) WITHOUT ROWID;"
    "INSERT INTO tags VALUES('alien', 'space'), ('alien', 'cat'), ('brazil', 'ducts');"
    "CREATE TABLE numbers(n INTEGER PRIMARY KEY, parity INT, text TEXT);"
    "CREATE INDEX by_parity ON numbers(parity);"
    "CREATE VIEW texts AS SELECT \"nope\" AS text;";

std::string fill(int rows) {
  return "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < " + std::to_string(rows) +
         ") INSERT INTO numbers SELECT i, i % 2, 'row ' || i FROM c;";
}

// Runs without end and returns no row.
constexpr std::string_view endless =
    "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c) SELECT i FROM c WHERE i < 0";

class SqliteDatabaseTest : public ::testing::Test {
 protected:
  SqliteDatabaseTest() : file(films) {}

  void open() {
    auto opened = SqliteDatabase::open(file.options, *loop.reactor, loop.mailbox, loop.threads);
    ASSERT_TRUE(opened) << opened.error().message;
    database = *std::move(opened);
  }
  Statement prepare(std::string_view text, std::vector<Parameter> declared = {}) {
    if (!database) open();
    auto prepared = loop.run(database->prepare(text, declared));
    EXPECT_TRUE(prepared) << text << ": " << prepared.error().message;
    return prepared ? *std::move(prepared) : Statement{};
  }
  Error prepare_error(std::string_view text) {
    if (!database) open();
    auto prepared = loop.run(database->prepare(text, {}));
    EXPECT_FALSE(prepared) << text;
    return prepared ? Error{} : prepared.error();
  }
  Result<Rows> rows(const Statement& statement, std::vector<Argument> arguments, Instant deadline = never) {
    return loop.run(collect(*database, statement, std::move(arguments), deadline));
  }
  static core::Task<Result<Rows>> collect(SqliteDatabase& database, const Statement& statement,
                                          std::vector<Argument> arguments, Instant deadline) {
    auto cursor = co_await database.query(statement, arguments, {deadline});
    if (!cursor) co_return std::unexpected(cursor.error());
    Rows rows;
    for (;;) {
      auto block = co_await (*cursor)->next();
      if (!block) co_return std::unexpected(block.error());
      add_rows(rows, *block);
      if (block->last) co_return Result<Rows>(std::move(rows));
    }
  }

  // The result as text, "name, name | row | row", and the address of its list of columns.
  struct Answer {
    std::string text;
    const Column* columns = nullptr;
  };
  Answer answer(const Statement& statement, std::vector<Argument> arguments = {}) {
    return loop.run(collect_answer(*database, statement, std::move(arguments)));
  }
  static core::Task<Answer> collect_answer(SqliteDatabase& database, const Statement& statement,
                                           std::vector<Argument> arguments) {
    auto cursor = co_await database.query(statement, arguments, {});
    if (!cursor) co_return Answer{cursor.error().message, nullptr};
    Answer answer;
    for (;;) {
      auto block = co_await (*cursor)->next();
      if (!block) co_return Answer{block.error().message, nullptr};
      if (answer.columns == nullptr) {
        answer.columns = block->columns.data();
        for (const Column& column : block->columns) answer.text += column.name + ' ';
      }
      EXPECT_EQ(answer.columns, block->columns.data()) << "the columns changed half-way";
      Rows rows;
      add_rows(rows, *block);
      for (const auto& row : rows) {
        answer.text += '|';
        for (const std::string& field : row) answer.text += ' ' + field;
      }
      if (block->last) co_return answer;
    }
  }

  TempFile file;
  Loop loop;
  std::unique_ptr<SqliteDatabase> database;

 private:
};

TEST_F(SqliteDatabaseTest, RefusesAMissingFile) {
  file.options.path += ".missing";
  const auto opened = SqliteDatabase::open(file.options, *loop.reactor, loop.mailbox, loop.threads);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().message, "no such file: " + file.options.path);
  EXPECT_FALSE(std::filesystem::exists(file.options.path));
}

TEST_F(SqliteDatabaseTest, RefusesWhatIsNoDatabase) {
  file.options.path = file.directory() / "text.db";
  std::ofstream(file.options.path) << std::string(10'000, 'x');
  const auto opened = SqliteDatabase::open(file.options, *loop.reactor, loop.mailbox, loop.threads);
  ASSERT_FALSE(opened);
  EXPECT_NE(opened.error().message.find("text.db: file is not a database"), std::string::npos)
      << opened.error().message;
}

TEST_F(SqliteDatabaseTest, SwitchesToWal) {
  open();
  EXPECT_TRUE(std::filesystem::exists(file.options.path + "-wal"));
}

TEST_F(SqliteDatabaseTest, ReadOnlyLeavesTheFileAsItIs) {
  file.options.read_only = true;
  open();
  const auto statement = prepare("SELECT slug FROM films WHERE id = :id");
  EXPECT_EQ(rows(statement, texts({"1"})), (Rows{{"'alien'"}}));
  EXPECT_FALSE(std::filesystem::exists(file.options.path + "-wal"));
}

TEST_F(SqliteDatabaseTest, Pings) {
  open();
  EXPECT_TRUE(loop.run(database->ping(never)));
  EXPECT_EQ(loop.run(database->ping(loop.reactor->now())).error().failure, Failure::timed_out);
  std::filesystem::rename(file.options.path, file.options.path + ".old");
  EXPECT_EQ(loop.run(database->ping(never)).error().failure, Failure::unavailable);
  std::filesystem::copy_file(file.options.path + ".old", file.options.path);
  EXPECT_EQ(loop.run(database->ping(never)).error().failure, Failure::unavailable);
}

TEST_F(SqliteDatabaseTest, DescribesStatements) {
  const auto statement = prepare("SELECT id, slug AS name, :x FROM films WHERE id = :id OR id = :x",
                                 {{"id", ParameterType::integer}, {"unused", ParameterType::text}});
  EXPECT_EQ(statement.text, "SELECT id, slug AS name, ?1 FROM films WHERE id = ?2 OR id = ?1");
  ASSERT_EQ(statement.columns.size(), 3u);
  EXPECT_EQ(statement.columns[1].name, "name");
  EXPECT_EQ(statement.columns[1].type->form, Form::dynamic);
  ASSERT_EQ(statement.parameters.size(), 2u);
  EXPECT_EQ(statement.parameters[0].name, "x");
  EXPECT_FALSE(statement.parameters[0].declared);
  EXPECT_EQ(statement.parameters[1].name, "id");
  EXPECT_EQ(statement.parameters[1].declared, ParameterType::integer);
}

TEST_F(SqliteDatabaseTest, PointsAtMistakes) {
  const auto wrong_column = prepare_error("SELECT id FROM films WHERE id = :some_id AND slugg = 'é'");
  EXPECT_EQ(wrong_column.message, "no such column: slugg");
  const Error quoted = prepare_error("SELECT \"nope\" AS n FROM films");
  EXPECT_EQ(quoted.message, "no such column: nope") << "and not a text";
  EXPECT_EQ(quoted.position, 8u);
  // In a view of the database, "text" is a string.
  EXPECT_EQ(rows(prepare("SELECT \"text\" FROM texts"), {})->at(0).at(0), "'nope'");
  EXPECT_EQ(wrong_column.position, 46u);
  const auto syntax = prepare_error("SELECT 'é', FROM films");
  EXPECT_EQ(syntax.message, "near \"FROM\": syntax error");
  EXPECT_EQ(syntax.position, 13u);
  EXPECT_EQ(prepare_error("SELECT * FROM film").message, "no such table: film");
  EXPECT_EQ(prepare_error("SELECT ?1").position, 8u);
}

TEST_F(SqliteDatabaseTest, RefusesWhatDoesNotRead) {
  for (const auto& [text, message] : std::initializer_list<std::pair<const char*, const char*>>{
           {"INSERT INTO films(id) VALUES(9)", "the statement writes"},
           {"INSERT INTO films(id) VALUES(9) RETURNING id", "the statement writes"},
           {"DELETE FROM films", "the statement writes"},
           {"CREATE TABLE x(y)", "the statement writes"},
           {"BEGIN", "transaction"},
           {"COMMIT", "transaction"},
           {"SAVEPOINT a", "transaction"},
           {"ATTACH 'x.db' AS x", "attach"},
           {"PRAGMA query_only = 0", "pragma"},
           {"PRAGMA journal_mode = DELETE", "pragma"},
           {"VACUUM", "the statement writes"},
           {"", "empty"},
           {"SELECT 1; SELECT 2", "more than one statement"},
       }) {
    const auto error = prepare_error(text);
    EXPECT_EQ(error.failure, Failure::statement);
    EXPECT_NE(error.message.find(message), std::string::npos) << text << ": " << error.message;
  }
  EXPECT_EQ(rows(prepare("SELECT name FROM pragma_table_info('tags')"), {}), (Rows{{"'film'"}, {"'tag'"}}));
}

TEST_F(SqliteDatabaseTest, LooksUpOnTheCore) {
  const auto by_id = prepare("SELECT * FROM films WHERE id = :id", {{"id", ParameterType::integer}});
  const Argument two{"2", ParameterType::integer};
  auto answer = database->query(by_id, {&two, 1}, {});
  ASSERT_TRUE(answer.ready());
  auto cursor = answer.take();
  ASSERT_TRUE(cursor);
  auto next = (*cursor)->next();
  ASSERT_TRUE(next.ready());
  const auto block = next.take();
  ASSERT_TRUE(block);
  EXPECT_TRUE(block->last);
  Rows found;
  add_rows(found, *block);
  EXPECT_EQ(found, (Rows{{"2", "'brazil'", "true", "7.0", "'{broken'"}}));
  EXPECT_EQ(database->counters().look_ups, 1u);
  EXPECT_EQ(database->counters().scans, 0u);

  EXPECT_EQ(rows(by_id, {{"1", ParameterType::integer}}),
            (Rows{{"1", "'alien'", "false", "8.5", "json {\"year\":1979}"}}));
  EXPECT_EQ(rows(by_id, {{"3"}}), (Rows{{"3", "'caché'", "null", "null", "null"}}));
  EXPECT_EQ(rows(by_id, {{"4"}}), Rows{});
  EXPECT_EQ(rows(by_id, {{std::nullopt}}), Rows{});
  EXPECT_EQ(rows(by_id, {{"x'y\"; DROP TABLE films"}}), Rows{});
  const auto tags = prepare("SELECT tag FROM tags WHERE film = :slug ORDER BY tag");
  EXPECT_EQ(rows(tags, texts({"alien"})), (Rows{{"'cat'"}, {"'space'"}}));
  EXPECT_EQ(database->counters().scans, 0u);
}

TEST_F(SqliteDatabaseTest, AnswersOverlap) {
  const auto by_slug = prepare("SELECT id, :slug FROM films WHERE slug = :slug");
  std::string slug = "alien";
  const Argument first{slug};
  auto one = database->query(by_slug, {&first, 1}, {}).take();
  slug = "brazil";
  const Argument second{slug};
  auto two = database->query(by_slug, {&second, 1}, {}).take();
  slug = "xxxxxx";
  Rows found;
  add_rows(found, *(*one)->next().take());
  add_rows(found, *(*two)->next().take());
  EXPECT_EQ(found, (Rows{{"1", "'alien'"}, {"2", "'brazil'"}}));
}

TEST_F(SqliteDatabaseTest, OneTransactionServesATurn) {
  const auto by_id = prepare("SELECT slug FROM films WHERE id = :id");
  const Argument one{"1"};
  const auto slug = [&] {
    Rows found;
    add_rows(found, *(*database->query(by_id, {&one, 1}, {}).take())->next().take());
    return found.at(0).at(0);
  };
  EXPECT_EQ(slug(), "'alien'");
  file.execute("UPDATE films SET slug = 'aliens' WHERE id = 1");
  // The same turn uses the same snapshot.
  EXPECT_EQ(slug(), "'alien'");
  EXPECT_EQ(database->counters().transactions, 1u);
  loop.turn(Duration(0));
  EXPECT_EQ(slug(), "'aliens'");
  EXPECT_EQ(database->counters().transactions, 2u);
  // After the turn no lock remains: the log can be written back and emptied.
  loop.turn(Duration(0));
  file.execute("PRAGMA wal_checkpoint(TRUNCATE)");
  EXPECT_EQ(std::filesystem::file_size(file.options.path + "-wal"), 0u);
}

// If it stayed, SQLite would apply it to another file that is moved to the path.
TEST_F(SqliteDatabaseTest, TheLogOfAnotherProgramIsGoneAfterTheLastReader) {
  const auto by_id = prepare("SELECT slug FROM films WHERE id = 1");
  ASSERT_TRUE(rows(by_id, {}));
  file.execute("UPDATE films SET slug = 'aliens' WHERE id = 1");  // by a connection that ends before this one
  EXPECT_TRUE(std::filesystem::exists(file.options.path + "-wal"));
  database.reset();
  EXPECT_FALSE(std::filesystem::exists(file.options.path + "-wal"));
  EXPECT_FALSE(std::filesystem::exists(file.options.path + "-shm"));
}

TEST_F(SqliteDatabaseTest, AReadOnlyFileKeepsTheLogOfAnotherProgram) {
  file.execute("PRAGMA journal_mode = WAL");
  file.options.read_only = true;
  const auto by_id = prepare("SELECT slug FROM films WHERE id = 1");
  ASSERT_TRUE(rows(by_id, {}));
  file.execute("UPDATE films SET slug = 'aliens' WHERE id = 1");
  database.reset();
  EXPECT_TRUE(std::filesystem::exists(file.options.path + "-wal"));
}

// A turn may serve a request that the client sent after this or another core had answered a write.
TEST_F(SqliteDatabaseTest, ATurnSeesWhatThisProcessHasCommitted) {
  Loop other;  // another core's; it outlives the writer, whose thread wakes it
  auto writer = SqliteWriter::open(file.options);
  ASSERT_TRUE(writer) << writer.error().message;
  auto opened = SqliteDatabase::open(file.options, *loop.reactor, loop.mailbox, loop.threads, writer->get());
  ASSERT_TRUE(opened) << opened.error().message;
  database = *std::move(opened);
  const auto by_id = prepare("SELECT slug FROM films WHERE id = 1");
  const auto slug = [&] {
    Rows found;
    add_rows(found, *(*database->query(by_id, {}, {}).take())->next().take());
    return found.at(0).at(0);
  };
  EXPECT_EQ(slug(), "'alien'");
  auto update = (*writer)->describe("UPDATE films SET slug = 'aliens' WHERE id = 1", {});
  ASSERT_TRUE(update) << update.error().message;
  std::make_shared<StatementIds>()->give(*update);
  // No turn of `loop` ends meanwhile.
  EXPECT_TRUE(other.run((*writer)->execute(*other.reactor, other.mailbox, *update, {}, {})));
  EXPECT_EQ(slug(), "'aliens'");
  EXPECT_EQ(slug(), "'aliens'");
  EXPECT_EQ(database->counters().transactions, 2u);
  database.reset();
}

TEST_F(SqliteDatabaseTest, RefusesArguments) {
  const auto by_id = prepare("SELECT * FROM films WHERE id = :id");
  EXPECT_EQ(rows(by_id, {{"1x", ParameterType::integer}}).error().failure, Failure::bad_argument);
  EXPECT_EQ(rows(by_id, {{"1x", ParameterType::integer}}).error().message, ":id is not an integer of 64 bits");
  // SQLite's own error: LIMIT requires a number.
  const auto limited = prepare("SELECT id FROM films WHERE id = 1 LIMIT :n");
  EXPECT_EQ(rows(limited, texts({"1"})), (Rows{{"1"}}));
  EXPECT_EQ(rows(limited, texts({"many"})).error().failure, Failure::bad_argument);
  const auto scanned = prepare("SELECT id FROM films ORDER BY score LIMIT :n");
  EXPECT_EQ(rows(scanned, texts({"many"})).error().failure, Failure::bad_argument);
  EXPECT_EQ(rows(scanned, {{"x", ParameterType::integer}}).error().failure, Failure::bad_argument);
  EXPECT_EQ(rows(limited, texts({"1"})), (Rows{{"1"}}));
  EXPECT_EQ(rows(scanned, texts({"1"})), (Rows{{"3"}}));
}

TEST_F(SqliteDatabaseTest, LargeLookUpsGoToThePool) {
  file.execute(fill(50'000));
  const auto odd = prepare("SELECT n, text FROM numbers WHERE parity = :p");
  auto found = rows(odd, texts({"1"}));
  ASSERT_TRUE(found);
  ASSERT_EQ(found->size(), 25'000u);
  EXPECT_EQ(found->back(), (std::vector<std::string>{"49999", "'row 49999'"}));
  EXPECT_EQ(database->counters().overflows, 1u);
  EXPECT_EQ(database->counters().scans, 1u);

  // Many rows are searched, and few are found.
  const auto none = prepare("SELECT n FROM numbers WHERE parity = :p AND text = 'nothing'");
  EXPECT_EQ(rows(none, texts({"1"})), Rows{});
  EXPECT_EQ(database->counters().overflows, 2u);

  // If most of a statement's look-ups are too much work, the core no longer tries them.
  for (int i = 0; i < 20; ++i) EXPECT_EQ(rows(none, texts({"0"})), Rows{});
  EXPECT_LT(database->counters().overflows, 15u);
  EXPECT_EQ(database->counters().look_ups, 0u);
}

TEST_F(SqliteDatabaseTest, LargeValuesGoToThePool) {
  file.execute(
      "INSERT INTO films(id, slug) VALUES(10, printf('%.*c', 5000000, 'x')); INSERT INTO films(id, slug) VALUES(11, "
      "'y')");
  const auto by_id = prepare("SELECT slug FROM films WHERE id = :id");
  EXPECT_EQ(rows(by_id, texts({"10"})), (Rows{{"'" + std::string(5'000'000, 'x') + "'"}}));
  EXPECT_EQ(database->counters().overflows, 1u);
  EXPECT_EQ(rows(by_id, texts({"11"})), (Rows{{"'y'"}}));
  EXPECT_EQ(database->counters().look_ups, 1u);
  // A long argument also goes to the pool.
  const auto by_slug = prepare("SELECT id FROM films WHERE slug = :slug");
  EXPECT_EQ(rows(by_slug, texts({std::string(5'000'000, 'x')})), (Rows{{"10"}}));
}

TEST_F(SqliteDatabaseTest, AnObjectNeedsTwoRowsAtMost) {
  file.execute(fill(5'000));
  auto odd = prepare("SELECT n FROM numbers WHERE parity = :p");
  odd.one_row = true;
  EXPECT_EQ(rows(odd, texts({"1"})), (Rows{{"1"}, {"3"}}));
  EXPECT_EQ(database->counters().overflows, 0u);
  auto scan = prepare("SELECT n FROM numbers ORDER BY n");
  scan.one_row = true;
  EXPECT_EQ(rows(scan, {}), (Rows{{"1"}, {"2"}}));
}

TEST_F(SqliteDatabaseTest, FollowsTheSchema) {
  const auto by_slug = prepare("SELECT id FROM films WHERE slug = :slug");
  const auto by_parity = prepare("SELECT n FROM numbers WHERE parity = :p");
  EXPECT_EQ(rows(by_parity, texts({"1"})), Rows{});
  EXPECT_EQ(database->counters().look_ups, 1u);
  file.execute("DROP INDEX by_parity");
  loop.turn(Duration(0));
  // A look-up that has lost its index is now a scan.
  EXPECT_EQ(rows(by_parity, texts({"1"})), Rows{});
  const auto scans = database->counters().scans;
  EXPECT_EQ(rows(by_parity, texts({"1"})), Rows{});
  EXPECT_EQ(database->counters().scans, scans + 1);
  EXPECT_EQ(rows(by_slug, texts({"alien"})), (Rows{{"1"}}));
}

TEST_F(SqliteDatabaseTest, AnswersWithTheColumnsThatThereAreNow) {
  const auto look_up = prepare("SELECT * FROM tags WHERE film = :film AND tag = 'cat'");
  const auto scan = prepare("SELECT * FROM tags WHERE tag <> 'ducts'");
  const auto same = prepare("SELECT film FROM tags WHERE film = :film AND tag = 'cat'");
  const auto both = [&](const std::string& names, const std::string& cat, const std::string& space) {
    loop.turn(Duration(0));
    const Answer found = answer(look_up, texts({"alien"}));
    const Answer again = answer(look_up, texts({"alien"}));
    const Answer scanned = answer(scan);
    EXPECT_EQ(found.text, names + cat);
    EXPECT_EQ(again.text, found.text);
    EXPECT_EQ(again.columns, found.columns) << "the same columns are the same list";
    EXPECT_EQ(scanned.text, names + cat + space);
    EXPECT_EQ(answer(scan).columns, scanned.columns);
    EXPECT_EQ(answer(same, texts({"alien"})).columns, same.columns.data());
    return std::pair(found.columns, scanned.columns);
  };
  const auto as_prepared = std::pair(look_up.columns.data(), scan.columns.data());
  EXPECT_EQ(both("film tag ", "| 'alien' 'cat'", "| 'alien' 'space'"), as_prepared);
  EXPECT_EQ(answer(look_up, texts({"none"})).text, "film tag ");

  file.execute("ALTER TABLE tags ADD COLUMN note TEXT");
  const auto added = both("film tag note ", "| 'alien' 'cat' null", "| 'alien' 'space' null");
  EXPECT_NE(added, as_prepared);
  EXPECT_EQ(answer(look_up, texts({"none"})).text, "film tag note ");

  file.execute("ALTER TABLE tags RENAME COLUMN note TO remark");
  const auto renamed = both("film tag remark ", "| 'alien' 'cat' null", "| 'alien' 'space' null");
  EXPECT_NE(renamed.first, added.first);
  EXPECT_NE(renamed.second, added.second);
  EXPECT_EQ(added.first[2].name, "note") << "a list that was handed out stays";
  EXPECT_EQ(added.second[2].name, "note");

  file.execute("ALTER TABLE tags DROP COLUMN remark");
  EXPECT_EQ(both("film tag ", "| 'alien' 'cat'", "| 'alien' 'space'"), as_prepared);
  file.execute("ALTER TABLE tags ADD COLUMN note TEXT");
  EXPECT_EQ(both("film tag note ", "| 'alien' 'cat' null", "| 'alien' 'space' null"), added);

  // The first answer of a scan after a change may have no rows.
  file.execute("DELETE FROM tags WHERE film = 'alien'; ALTER TABLE tags DROP COLUMN note");
  loop.turn(Duration(0));
  EXPECT_EQ(answer(scan).text, "film tag ");
}

TEST_F(SqliteDatabaseTest, FollowsDeclaredTypes) {
  const auto look_up = prepare("SELECT * FROM films WHERE id = :id");
  const auto scan = prepare("SELECT * FROM films WHERE score > 8");
  EXPECT_EQ(rows(look_up, texts({"1"})), (Rows{{"1", "'alien'", "false", "8.5", "json {\"year\":1979}"}}));
  EXPECT_EQ(rows(scan, {}), (Rows{{"1", "'alien'", "false", "8.5", "json {\"year\":1979}"}}));
  file.execute(
      "DROP TABLE films;"
      "CREATE TABLE films(id INTEGER PRIMARY KEY, slug TEXT UNIQUE, adult INT, score REAL, blob TEXT);"
      "INSERT INTO films VALUES(1, 'alien', 0, 8.5, '{}')");
  loop.turn(Duration(0));
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(rows(look_up, texts({"1"})), (Rows{{"1", "'alien'", "0", "8.5", "'{}'"}}));
    EXPECT_EQ(rows(scan, {}), (Rows{{"1", "'alien'", "0", "8.5", "'{}'"}}));
    EXPECT_EQ(answer(look_up, texts({"1"})).columns, look_up.columns.data());
  }
}

TEST_F(SqliteDatabaseTest, AStatementThatNoLongerFitsIsRefusedUntilItDoes) {
  const auto look_up = prepare("SELECT tag FROM tags WHERE film = :film AND tag = 'cat'");
  const auto scan = prepare("SELECT tag FROM tags WHERE tag = 'cat'");
  EXPECT_EQ(rows(look_up, texts({"alien"})), (Rows{{"'cat'"}}));
  EXPECT_EQ(rows(scan, {}), (Rows{{"'cat'"}}));
  file.execute("ALTER TABLE tags RENAME COLUMN tag TO label");
  loop.turn(Duration(0));
  EXPECT_EQ(rows(look_up, texts({"alien"})).error().failure, Failure::statement);
  EXPECT_EQ(rows(scan, {}).error().failure, Failure::statement);
  file.execute("ALTER TABLE tags RENAME COLUMN label TO tag");
  loop.turn(Duration(0));
  EXPECT_EQ(rows(look_up, texts({"alien"})), (Rows{{"'cat'"}}));
  EXPECT_EQ(rows(scan, {}), (Rows{{"'cat'"}}));
  file.execute("DROP TABLE tags");
  loop.turn(Duration(0));
  EXPECT_EQ(rows(look_up, texts({"alien"})).error().failure, Failure::statement);
  EXPECT_EQ(rows(scan, {}).error().failure, Failure::statement);
}

// As after a reload of the configuration: the connections stay.
TEST_F(SqliteDatabaseTest, AStatementThatTakesTheSlotOfAnotherIsAnother) {
  open();
  std::optional<Statement> first = prepare("SELECT id FROM films WHERE slug = :s");
  const StatementId id = first->id;
  EXPECT_EQ(prepare("SELECT id FROM films WHERE slug = :s").id, id);
  EXPECT_EQ(rows(*first, texts({"alien"})), (Rows{{"1"}}));
  first.reset();
  const Statement second = prepare("SELECT score FROM films WHERE slug = :s");
  EXPECT_EQ(second.id.slot, id.slot);
  EXPECT_NE(second.id, id);
  EXPECT_EQ(rows(second, texts({"alien"})), (Rows{{"8.5"}}));
}

TEST_F(SqliteDatabaseTest, Scans) {
  const auto all = prepare("SELECT slug FROM films ORDER BY score DESC");
  EXPECT_EQ(rows(all, {}), (Rows{{"'alien'"}, {"'brazil'"}, {"'caché'"}}));
  EXPECT_EQ(database->counters().scans, 1u);
  EXPECT_EQ(rows(prepare("SELECT id FROM films WHERE score > :s", {}), {{"7.5", ParameterType::real}}), (Rows{{"1"}}));
  EXPECT_EQ(rows(prepare("SELECT count(*) FROM films WHERE slug LIKE 'q%'"), {}), (Rows{{"0"}}));
  EXPECT_EQ(rows(prepare("SELECT id FROM films WHERE slug LIKE 'q%'"), {}), Rows{});
}

std::size_t resident_kib() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    std::size_t value = 0;
    if (word == "VmRSS:" && status >> value) return value;
  }
  return 0;
}

TEST_F(SqliteDatabaseTest, StreamsAMillionRowsInBlocks) {
  constexpr int count = 1'000'000;
  file.execute(fill(count));
  const auto all = prepare("SELECT n, text FROM numbers");
  const std::size_t before = resident_kib();
  struct Totals {
    std::int64_t rows = 0;
    std::size_t blocks = 0;
    std::size_t largest = 0;
    std::size_t resident_kib = 0;
    bool in_order = true;
  };
  const auto drain = [](SqliteDatabase& from, const Statement& statement) -> core::Task<Totals> {
    Totals totals;
    auto cursor = co_await from.query(statement, {}, {});
    EXPECT_TRUE(cursor);
    for (bool last = false; !last;) {
      auto block = co_await (*cursor)->next();
      EXPECT_TRUE(block);
      if (!block) break;
      last = block->last;
      ++totals.blocks;
      std::size_t bytes = 0;
      for (std::size_t i = 0; i < block->rows; ++i) {
        const auto row = block->row(i);
        bytes += row[0].size + row[1].size;
        const std::string number = std::to_string(++totals.rows);
        totals.in_order &= row[0].view() == number && row[1].view() == "row " + number;
      }
      totals.largest = std::max(totals.largest, bytes);
      totals.resident_kib = std::max(totals.resident_kib, resident_kib());
    }
    co_return totals;
  };
  const auto totals = loop.run(drain(*database, all));
  EXPECT_EQ(totals.rows, count);
  EXPECT_TRUE(totals.in_order);
  EXPECT_GT(totals.blocks, 100u);
  EXPECT_LE(totals.largest, sqlite::scan_block_bytes + 64);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LT(totals.resident_kib, before + 16 * 1024);
#endif
}

TEST_F(SqliteDatabaseTest, ACancelledScanGivesItsConnectionBack) {
  file.options.scan_connections = 1;
  file.execute(fill(200'000));
  const auto all = prepare("SELECT n, text FROM numbers");
  const auto count = prepare("SELECT count(*) FROM numbers");
  // Abandoned between two blocks.
  const auto first_block = [](SqliteDatabase& from, const Statement& statement) -> core::Task<std::size_t> {
    auto cursor = co_await from.query(statement, {}, {});
    auto block = co_await (*cursor)->next();
    co_return block->rows;
  };
  EXPECT_GT(loop.run(first_block(*database, all)), 100u);
  EXPECT_EQ(rows(count, {}), (Rows{{"200000"}}));
  // Abandoned while a thread runs it; this statement would never end.
  const auto forever = prepare(endless);
  {
    core::TaskGroup group;
    const auto wait = [](SqliteDatabase& from, const Statement& statement) -> core::Task<void> {
      (void)co_await from.query(statement, {}, {});
      ADD_FAILURE() << "it has ended";
    };
    group.spawn(wait(*database, forever));
    loop.turn(std::chrono::milliseconds(30));
  }
  EXPECT_EQ(rows(count, {}), (Rows{{"200000"}}));
  // Abandoned before a thread has started: the connection is busy, so the scan only waits.
  {
    core::TaskGroup group;
    const auto wait = [](SqliteDatabase& from, const Statement& statement) -> core::Task<void> {
      (void)co_await from.query(statement, {}, {});
    };
    group.spawn(wait(*database, forever));
    group.spawn(wait(*database, forever));
    loop.turn(std::chrono::milliseconds(5));
  }
  EXPECT_EQ(rows(count, {}), (Rows{{"200000"}}));
}

TEST_F(SqliteDatabaseTest, ScansKeepTheirSnapshot) {
  file.execute(fill(100'000));
  const auto all = prepare("SELECT n, text FROM numbers");
  const auto read = [](SqliteDatabase& from, const Statement& statement, TempFile& other) -> core::Task<std::size_t> {
    auto cursor = co_await from.query(statement, {}, {});
    std::size_t count = 0;
    for (bool changed = false;;) {
      auto block = co_await (*cursor)->next();
      EXPECT_TRUE(block);
      for (std::size_t i = 0; i < block->rows; ++i) EXPECT_TRUE(block->row(i)[1].view().starts_with("row"));
      count += block->rows;
      if (block->last) co_return count;
      if (!changed) other.execute("UPDATE numbers SET text = 'changed'; DELETE FROM numbers WHERE n > 50000");
      changed = true;
    }
  };
  EXPECT_EQ(loop.run(read(*database, all, file)), 100'000u);
  EXPECT_EQ(rows(prepare("SELECT count(*), min(text) FROM numbers"), {}), (Rows{{"50000", "'changed'"}}));
}

TEST_F(SqliteDatabaseTest, DeadlinesStopScans) {
  const auto forever = prepare(endless);
  const auto begin = std::chrono::steady_clock::now();
  const auto found = rows(forever, {}, loop.reactor->now() + std::chrono::milliseconds(50));
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().failure, Failure::timed_out);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  EXPECT_EQ(rows(prepare("SELECT count(*) FROM films WHERE score > 0"), {}), (Rows{{"2"}}));
  const auto by_id = prepare("SELECT slug FROM films WHERE id = :id");
  EXPECT_EQ(rows(by_id, texts({"1"}), loop.reactor->now()).error().failure, Failure::timed_out);
}

TEST_F(SqliteDatabaseTest, ATransactionThatReadsTakesNoLock) {
  file.execute(fill(1000));
  const auto count = prepare("SELECT count(*) FROM numbers");
  const auto all = prepare("SELECT n, text FROM numbers");
  const auto run = [&](Transaction& transaction, const Statement& statement) -> Result<Rows> {
    auto written = loop.run(transaction.execute(statement, {}));
    if (!written) return std::unexpected(std::move(written.error()));
    Rows rows;
    add_rows(rows, written->rows);
    EXPECT_TRUE(written->rows.last);
    EXPECT_EQ(written->changes, 0u);
    return rows;
  };
  // This database has no writer, and another connection is writing.
  sqlite3* other = nullptr;
  ASSERT_EQ(sqlite3_open(file.options.path.c_str(), &other), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(other, "BEGIN IMMEDIATE; INSERT INTO numbers VALUES (0, 0, '')", nullptr, nullptr, nullptr),
            SQLITE_OK);
  {
    const auto transaction = database->begin({.settings = {}, .reads_only = true});
    EXPECT_EQ(run(*transaction, count), (Rows{{"1000"}}));
    // All statements use the first one's snapshot.
    ASSERT_EQ(sqlite3_exec(other, "COMMIT; DELETE FROM numbers WHERE n < 500", nullptr, nullptr, nullptr), SQLITE_OK);
    EXPECT_EQ(run(*transaction, count), (Rows{{"1000"}}));
    EXPECT_EQ(run(*transaction, all).value().size(), 1000u);
    EXPECT_TRUE(loop.run(transaction->commit()));
  }
  EXPECT_EQ(rows(count, {}), (Rows{{"501"}})) << "its connection sees what there is now";
  sqlite3_close(other);

  const auto limited = database->begin({.settings = {}, .reads_only = true, .result_bytes = 1000});
  const auto refused = run(*limited, all);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().failure, Failure::too_large);
  const auto forever = prepare(endless);
  const auto late = database->begin(
      {.deadline = loop.reactor->now() + std::chrono::milliseconds(20), .settings = {}, .reads_only = true});
  EXPECT_EQ(run(*late, forever).error().failure, Failure::timed_out);
}

TEST_F(SqliteDatabaseTest, BoundsWhatOneCallOfAFunctionCanTake) {
  file.options.row_bytes = 1 << 20;
  const auto refused = [&](const char* text, const std::vector<std::string>& values) {
    const auto statement = prepare(text);
    std::vector<Argument> arguments;
    for (const std::string& value : values) arguments.push_back({value});
    const auto answer = rows(statement, arguments);
    return answer ? std::string("fine")
                  : answer.error().sqlstate + (answer.error().failure == Failure::bad_argument ? "" : "!");
  };
  const std::string text(1000, 'a');
  EXPECT_EQ(refused("SELECT 'b' LIKE :p", {text}), "fine");
  EXPECT_EQ(refused("SELECT 'b' LIKE :p", {text + "a"}), "22023");
  EXPECT_EQ(refused("SELECT 'b' GLOB :p", {text + "a"}), "22023");
  EXPECT_EQ(refused("SELECT count(*) FROM (SELECT 'b' AS c UNION SELECT 'd') WHERE c LIKE :p", {text + "a"}), "22023");
  for (const char* sql :
       {"SELECT length(zeroblob(:n + 0))", "SELECT length(randomblob(:n + 0))", "SELECT length(hex(zeroblob(:n / 2)))",
        "SELECT length(replace(hex(zeroblob(500)), '0', hex(zeroblob(:n / 2000))))"}) {
    EXPECT_EQ(refused(sql, {"1000000"}), "fine") << sql;
    EXPECT_EQ(refused(sql, {"1200000"}), "22001") << sql;
  }
  EXPECT_EQ(refused("SELECT length(:text)", {std::string(1'200'000, 'x')}), "");
  // On the core, SQLite's printf() would return NULL, because the result exceeds the limit.
  EXPECT_EQ(rows(prepare("SELECT length(printf('%300000d', 1)), length(format('%.*c', 300000, 'x'))"), {}),
            (Rows{{"300000", "300000"}}));
}

TEST_F(SqliteDatabaseTest, ADeadlineIsForTheDatabaseAndNotForASlowClient) {
  file.execute(fill(200'000));
  const auto all = prepare("SELECT n, text FROM numbers");
  const auto read = [](SqliteDatabase& from, const Statement& statement, Loop& with) -> core::Task<Result<Block>> {
    auto cursor = co_await from.query(statement, {}, {with.reactor->now() + std::chrono::seconds(3)});
    if (!cursor) co_return std::unexpected(cursor.error());
    EXPECT_TRUE(co_await (*cursor)->next());
    // The client is slow: it waits while another statement runs into a later deadline.
    const Instant later = with.reactor->now() + std::chrono::milliseconds(3100);
    Statement wait = statement;
    wait.text = endless;
    from.give_id(wait);
    wait.columns.resize(1);
    EXPECT_FALSE(co_await from.query(wait, {}, {later}));
    co_return co_await (*cursor)->next();
  };
  const auto block = loop.run(read(*database, all, loop));
  ASSERT_TRUE(block) << block.error().message;
}

TEST_F(SqliteDatabaseTest, BoundsWaitingScans) {
  file.options.scan_connections = 1;
  file.options.scan_queue = 2;
  file.options.scan_wait_ms = 100;
  const auto forever = prepare(endless);
  std::vector<Failure> failures;
  const auto wait = [](SqliteDatabase& from, const Statement& statement, std::vector<Failure>& into,
                       Instant deadline) -> core::Task<void> {
    auto cursor = co_await from.query(statement, {}, {deadline});
    EXPECT_FALSE(cursor);
    if (!cursor) into.push_back(cursor.error().failure);
  };
  core::TaskGroup group;
  const Instant deadline = loop.reactor->now() + std::chrono::milliseconds(300);
  for (int i = 0; i < 3; ++i) group.spawn(wait(*database, forever, failures, deadline));
  EXPECT_TRUE(failures.empty());
  group.spawn(wait(*database, forever, failures, deadline));  // the queue is full, so it fails at once
  EXPECT_EQ(failures, (std::vector{Failure::unavailable}));
  loop.until([&] { return failures.size() == 4; });  // two after their wait, the running one at its deadline
  EXPECT_EQ(failures,
            (std::vector{Failure::unavailable, Failure::unavailable, Failure::unavailable, Failure::timed_out}));
  EXPECT_EQ(rows(prepare("SELECT count(*) FROM films"), {}), (Rows{{"3"}}));
}

TEST_F(SqliteDatabaseTest, WaitingScansGetTheirTurn) {
  file.options.scan_connections = 1;
  file.options.scan_wait_ms = 60'000;
  file.execute(fill(20'000));
  const auto all = prepare("SELECT n, text FROM numbers ORDER BY text");
  int done = 0;
  const auto read = [](SqliteDatabase& from, const Statement& statement, int& ended) -> core::Task<void> {
    auto found = co_await collect(from, statement, {}, never);
    EXPECT_TRUE(found);
    EXPECT_EQ(found->size(), 20'000u);
    ++ended;
  };
  core::TaskGroup group;
  for (int i = 0; i < 10; ++i) group.spawn(read(*database, all, done));
  loop.until([&] { return done == 10; });
}

// A thread, and not the core, waits for a lock that another process holds.
TEST_F(SqliteDatabaseTest, LocksAreWaitedForInThePool) {
  file.options.read_only = true;  // without WAL, a writer locks readers out
  file.options.busy_timeout_ms = 50;
  const auto by_id = prepare("SELECT slug FROM films WHERE id = :id");
  sqlite3* other = nullptr;
  ASSERT_EQ(sqlite3_open(file.options.path.c_str(), &other), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(other, "BEGIN EXCLUSIVE", nullptr, nullptr, nullptr), SQLITE_OK);
  const auto found = rows(by_id, texts({"1"}));
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().failure, Failure::unavailable);
  EXPECT_EQ(database->counters().overflows, 1u);
  sqlite3_exec(other, "COMMIT", nullptr, nullptr, nullptr);
  sqlite3_close(other);
  EXPECT_EQ(rows(by_id, texts({"1"})), (Rows{{"'alien'"}}));
  EXPECT_EQ(database->counters().look_ups, 1u);
}

TEST_F(SqliteDatabaseTest, EndsWhileAScanRuns) {
  const auto forever = prepare(endless);
  core::TaskGroup group;
  const auto wait = [](SqliteDatabase& from, const Statement& statement) -> core::Task<void> {
    (void)co_await from.query(statement, {}, {});
  };
  group.spawn(wait(*database, forever));
  loop.turn(std::chrono::milliseconds(20));
  group.cancel();
  database.reset();
}

}  // namespace
}  // namespace sluice::sql
