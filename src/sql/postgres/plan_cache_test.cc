#include "sql/postgres/plan_cache.h"

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "core/simulated_reactor.h"
#include "sql/postgres/pool.h"
#include "sql/postgres/types.h"

namespace sluice::sql::postgres {
namespace {

struct PlanCacheTest : testing::Test {
  static constexpr std::size_t most = 4;
  static Statement statement(std::uint32_t slot, std::uint64_t serial) {
    Statement made;
    made.id = {.slot = slot, .serial = serial};
    made.text = "SELECT " + std::to_string(serial);
    made.columns = {{"n", builtin_type(23)}};
    return made;
  }
  // The types of the messages, and for each Parse and Close the name of the statement, as in "C:r0 P:r0 D B".
  static std::string written(Buffer& out) {
    std::string text;
    std::size_t at = 0;
    for (Message message; frame(out.data() + at, out.size() - at, out.size(), message) == Framing::complete;
         at += message.size) {
      if (!text.empty()) text += ' ';
      text += message.type;
      if (message.type == 'P') text += ":" + std::string(message.payload.data());
      if (message.type == 'C') text += ":" + std::string(message.payload.data() + 1);
    }
    out.clear();
    return text;
  }
  static ServerError error(std::string_view sqlstate, std::string_view routine = {}) {
    ServerNotice notice;
    notice.sqlstate = sqlstate;
    notice.routine = routine;
    return ServerError(notice);
  }
  std::string bind(const Statement& of, std::uint32_t role) {
    const bool prepares = plans.write_bind(out, of, role, 0, {}, PlanCache::For::query);
    if (prepares) (void)plans.take(of, role, fields, PlanCache::For::query);
    return written(out);
  }

  core::SimulatedReactor reactor{1, {}};
  Pool pool{reactor, {}};
  PlanCache plans{pool.column_lists(), true, most};
  Buffer out;
  std::vector<FieldDescription> fields = {{.name = "n", .type = 23}};
};

TEST_F(PlanCacheTest, EachRoleHasItsPlanAndThoseUsedLastAreKept) {
  const Statement first = statement(0, 1);
  EXPECT_EQ(bind(first, 0), "P:s0 D B");
  EXPECT_EQ(bind(first, 0), "B");
  for (std::uint32_t role = 1; role <= most; ++role) {
    EXPECT_EQ(bind(first, role), "P:r" + std::to_string(role - 1) + " D B");
    EXPECT_EQ(bind(first, role), "B");
  }
  EXPECT_EQ(bind(first, 1), "B");
  EXPECT_EQ(bind(first, 9), "C:r1 P:r1 D B");  // role 2 was used longest ago
  EXPECT_EQ(bind(first, 1), "B");
  EXPECT_EQ(bind(first, 9), "B");
  EXPECT_EQ(bind(first, 2), "C:r2 P:r2 D B");
  EXPECT_EQ(plans.with_role(), most);
  EXPECT_EQ(bind(first, 0), "B");
}

TEST_F(PlanCacheTest, ManyStatementsAndRolesUseFewNames) {
  std::set<std::string> names;
  for (std::uint64_t i = 0; i < 10'000; ++i) {
    const std::string made = bind(statement(static_cast<std::uint32_t>(i % 16), i), static_cast<std::uint32_t>(i % 51));
    if (const auto at = made.find("P:"); at != made.npos) names.insert(made.substr(at, made.find(' ', at) - at));
  }
  EXPECT_LE(names.size(), 16 + most);
}

TEST_F(PlanCacheTest, ASlotWithAnotherStatementIsPreparedAgain) {
  for (const std::uint32_t role : {0U, 7U}) {
    const std::string name = role == 0 ? "s0" : "r0";
    EXPECT_EQ(bind(statement(0, 1), role), "P:" + name + " D B");
    EXPECT_EQ(bind(statement(0, 2), 0), role == 0 ? "C:s0 P:s0 D B" : "P:s0 D B");
    EXPECT_EQ(bind(statement(0, 1), role), role == 0 ? "C:s0 P:s0 D B" : "B");
    plans.clear();
  }
}

TEST_F(PlanCacheTest, APlanThatIsGoneIsReportedOnceAndPreparedAgain) {
  const Statement first = statement(0, 1);
  const ServerError gone = error("26000");
  const ServerError other = error("22012");
  for (const std::uint32_t role : {0U, 7U}) {
    (void)bind(first, role);
    const auto described = plans.description_of({first.id, role});
    EXPECT_EQ(described.kind, PlanCache::Description::Kind::usable);
    EXPECT_FALSE(plans.ended({first.id, role}, false, described, &other));
    EXPECT_EQ(bind(first, role), "B");
    EXPECT_TRUE(plans.ended({first.id, role}, false, described, &gone));
    EXPECT_TRUE(plans.ended({first.id, role}, true, {}, &gone));  // its settings were gone
    EXPECT_FALSE(plans.ended({first.id, role}, true, {}, &other));
    EXPECT_EQ(bind(first, role), role == 0 ? "C:s0 P:s0 D B" : "C:r0 P:r0 D B");
  }
}

TEST_F(PlanCacheTest, AStepThatFindsAStalePlanMakesAllStale) {
  const Statement first = statement(0, 1);
  const Statement second = statement(1, 2);
  (void)bind(first, 0);
  (void)bind(second, 3);
  const ServerError stale = error("0A000", "RevalidateCachedQuery");
  EXPECT_TRUE(plans.step_failed(&first, 0, stale, true));
  EXPECT_EQ(bind(first, 0), "C:s0 P:s0 D B");
  EXPECT_EQ(bind(second, 3), "C:r0 P:r0 D B");
}

TEST_F(PlanCacheTest, SettingsAreParsedOnceForEachNumberOfThem) {
  const Setting role{"role", "reader"};
  const Setting both[] = {role, {"TimeZone", "UTC"}};
  const Settings one(pool.options(), {&role, 1});
  const Settings two(pool.options(), both);
  EXPECT_NE(one.role(), 0U);
  EXPECT_EQ(one.role(), two.role());
  const auto write = [&](const Settings& settings) {
    plans.write_settings(out, settings);
    return written(out);
  };
  EXPECT_EQ(write(one), "P:c1 B E");
  EXPECT_EQ(write(two), "P:c2 B E");
  EXPECT_EQ(write(one), "B E");
  plans.own_command_failed(error("42501"));  // a role that is refused
  EXPECT_EQ(write(one), "B E");
  plans.own_command_failed(error("26000"));
  EXPECT_EQ(write(one), "C:c1 P:c1 B E");
  EXPECT_EQ(write({}), "");
}

}  // namespace
}  // namespace sluice::sql::postgres
