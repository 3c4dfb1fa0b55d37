#include "api/error_map.h"

#include <gtest/gtest.h>

#include "api/failures.h"
#include "api/writing_fixture.h"

namespace sluice::api {
namespace {

Named<ErrorOptions> entry(std::string code, std::uint32_t status, std::string detail = {}, bool shows = false) {
  Named<ErrorOptions> made;
  made.name.value = std::move(code);
  made.value.status.value = status;
  made.value.detail.value = std::move(detail);
  made.value.show_message = shows;
  return made;
}

sql::Error error(std::string sqlstate, std::string message = "secret", sql::Failure failure = sql::Failure::statement) {
  return {failure, std::move(sqlstate), std::move(message), 0};
}

TEST(ErrorMap, AnEndpointsOwnGoBeforeTheOthersAndCodesBeforeClasses) {
  const std::vector own{entry("23xxx", 400), entry("23505", 410)};
  const std::vector common{entry("23505", 411), entry("P0001", 418), entry("22xxx", 404)};
  const auto map = ErrorMap::make(own, common);
  const auto status = [&](std::string sqlstate) {
    const auto* found = map->find(error(std::move(sqlstate)));
    return found == nullptr ? 0 : found->status;
  };
  EXPECT_EQ(status("23505"), 410);
  EXPECT_EQ(status("23503"), 400);
  EXPECT_EQ(status("P0001"), 418);
  EXPECT_EQ(status("P0002"), 0);
  EXPECT_EQ(status("22012"), 404);
  EXPECT_EQ(status(""), 0);
  EXPECT_EQ(map->find(error("23505", "", sql::Failure::lost)), nullptr) << "nobody knows what was done";
  EXPECT_EQ(ErrorMap::make({}, {}), nullptr);
}

TEST(ErrorMap, TheDatabasesWordsAreShownOnlyWhereThatIsAskedFor) {
  auto typed = entry("P0002", 409, "It is \"so\".");
  typed.value.type.value = "https://example.com/so";
  typed.value.title = "So";
  const std::vector common{entry("P0001", 422, {}, true), typed, entry("P0003", 503)};
  const auto map = ErrorMap::make({}, common);
  const Failures failures("/x", nullptr, map.get());
  const auto body = [&](const sql::Error& one, Failed failed = Failed::writing) {
    return testing::body_of(failures.answer(one, failed));
  };
  EXPECT_EQ(body(error("P0002")),
            R"({"type":"https://example.com/so","title":"So","status":409,"detail":"It is \"so\"."})");
  EXPECT_EQ(body(error("P0003")), R"({"type":"about:blank","title":"Service Unavailable","status":503})");
  EXPECT_EQ(failures.answer(error("P0003"), Failed::writing).fields.get("Retry-After"), "1");
  sql::Error raised = error("P0001", "too \"late\" (Failing row contains (7)) hint: no");
  raised.headline = 10;
  const std::string shown =
      R"({"type":"about:blank","title":"Unprocessable Content","status":422,"detail":"too \"late\""})";
  EXPECT_EQ(body(raised), shown);
  EXPECT_EQ(body(raised, Failed::reading_alone), shown) << "reading as well as writing";
  EXPECT_TRUE(body(error("P0001", "\xff")).ends_with(R"("detail":"The database refuses it."})"));
  EXPECT_LT(body(error("P0001", std::string(999, 'a') + "ßßß")).size(), 1100U);
  EXPECT_FALSE(body(error("23505")).contains("secret"));
}

TEST(ErrorMap, WhatItSaysNothingOfStays) {
  const std::vector common{entry("23xxx", 410), entry("23514", 418, "Mine."), entry("22xxx", 418)};
  const auto map = ErrorMap::make({}, common);
  const Failures failures("/x", nullptr, map.get());
  const auto body = [&](const sql::Error& one, Failed failed = Failed::writing) {
    return testing::body_of(failures.answer(one, failed, R"("errors":[7])"));
  };
  EXPECT_EQ(body(error("23505")),
            R"({"type":"about:blank","title":"Gone","status":410,"detail":"There is a row with the same key already.",)"
            R"("errors":[7]})");
  EXPECT_TRUE(body(error("23514")).ends_with(R"("detail":"Mine.","errors":[7]})"));
  const sql::Error type = error("22P02", "", sql::Failure::bad_argument);
  EXPECT_TRUE(body(type).contains(R"("detail":"A value does not fit its type.")"));
  EXPECT_TRUE(body(type, Failed::reading).contains(R"("detail":"The database refuses a parameter's value.")"));
  EXPECT_FALSE(body(type, Failed::reading_alone).contains("detail"));
}

TEST(ErrorMap, WhatIsNoCode) {
  for (const char* good : {"P0001", "23xxx", "40001", "53400", "ZZ999"}) EXPECT_EQ(check_error_code(good), "") << good;
  for (const char* wrong :
       {"", "23", "2350", "235055", "p0001", "23Xxx", "xxxxx", "08006", "53xxx", "53200", "57P01", "00000"}) {
    EXPECT_NE(check_error_code(wrong), "") << wrong;
  }
}

}  // namespace
}  // namespace sluice::api
