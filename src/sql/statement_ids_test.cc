#include "sql/statement_ids.h"

#include <optional>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "sql/database.h"

namespace sluice::sql {
namespace {

struct StatementIdsTest : ::testing::Test {
  Statement made(std::string text, std::vector<std::uint32_t> types = {}, std::vector<Column> columns = {}) {
    Statement statement;
    statement.text = std::move(text);
    statement.parameter_types = std::move(types);
    statement.columns = std::move(columns);
    ids->give(statement);
    return statement;
  }
  std::shared_ptr<StatementIds> ids = std::make_shared<StatementIds>();
};

TEST_F(StatementIdsTest, EqualStatementsShareAnId) {
  const Statement one = made("a", {23}, {{"n", nullptr, 25}});
  EXPECT_TRUE(one.id.is_named());
  EXPECT_EQ(made("a", {23}, {{"n", nullptr, 25}}).id, one.id);
  const std::vector<Statement> others{made("b", {23}, {{"n", nullptr, 25}}),  made("a", {20}, {{"n", nullptr, 25}}),
                                      made("a", {23}, {{"m", nullptr, 25}}),  made("a", {23}, {{"n", nullptr, 17}}),
                                      made("a", {}, {{"23", nullptr, 25}}),   made("a", {23}),
                                      made("a", {23}, {{"n", {}, 25, "INT"}})};
  std::vector<std::uint32_t> slots{one.id.slot};
  for (const Statement& other : others) slots.push_back(other.id.slot);
  EXPECT_EQ(slots, (std::vector<std::uint32_t>{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST_F(StatementIdsTest, ASlotIsUsedAgainOnceTheLastCopyIsGone) {
  std::optional<Statement> first = made("a");
  const Statement second = made("b");
  const StatementId id = first->id;
  std::optional<Statement> copy = first;
  first.reset();
  EXPECT_EQ(made("a").id, id);
  EXPECT_NE(made("c").id.slot, id.slot);
  copy.reset();
  const Statement later = made("a");
  EXPECT_EQ(later.id.slot, id.slot);
  EXPECT_NE(later.id.serial, id.serial);
}

TEST_F(StatementIdsTest, AChangedStatementTakesAnotherId) {
  Statement one = made("a");
  const StatementId id = one.id;
  one.text = "b";
  ids->give(one);
  EXPECT_NE(one.id.serial, id.serial);
  EXPECT_EQ(made("c").id.slot, id.slot) << "nobody has \"a\" any more";
}

TEST_F(StatementIdsTest, TheLastCopyMayGoOnAnyThread) {
  const auto work = [this] {
    for (int i = 0; i < 2000; ++i) {
      const Statement one = made(std::to_string(i % 7));
      const Statement same = made(std::to_string(i % 7));
      EXPECT_EQ(one.id, same.id);
    }
  };
  std::thread other(work);
  work();
  other.join();
  EXPECT_LE(made("last").id.slot, 2u);
}

TEST_F(StatementIdsTest, AStatementMayOutliveWhoGaveItsId) {
  const Statement one = made("a");
  ids.reset();
  EXPECT_TRUE(one.id.is_named());
}

}  // namespace
}  // namespace sluice::sql
