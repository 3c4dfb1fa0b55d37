#include "rooms/tables.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace sluice::rooms {
namespace {

TEST(RoomNotice, IsRead) {
  const auto counter = parse_notice(
      "c\x1fmessages\x1f"
      "12\x1f"
      "7\x1fx");
  ASSERT_TRUE(counter);
  EXPECT_EQ(counter->kind, Notice::Kind::counter);
  EXPECT_EQ(counter->name, "messages");
  EXPECT_EQ(counter->offset, 12U);
  EXPECT_EQ(counter->key, "7\x1fx");
  EXPECT_EQ(parse_notice("t\x1fmembers")->kind, Notice::Kind::table);
  EXPECT_EQ(parse_notice(beat_of("a"))->kind, Notice::Kind::beat);
  EXPECT_EQ(parse_notice(beat_of("a"))->name, "a");
  for (const char* text : {"", "c",
                           "x\x1f"
                           "a",
                           "c\x1fmessages\x1fx\x1f"
                           "7",
                           "c\x1fmessages\x1f-1\x1f"
                           "7"}) {
    EXPECT_EQ(parse_notice(text), std::nullopt) << text;
  }
}

TEST(RoomCounters, AreAskedForByAList) {
  const std::vector<std::string> keys{"", "a\"b", "c\\d", "e,f"};
  EXPECT_EQ(list_of(keys, sql::Dialect::postgres), R"({"","a\"b","c\\d","e,f"})");
  EXPECT_EQ(list_of(keys, sql::Dialect::sqlite), R"(["","a\"b","c\\d","e,f"])");
}

TEST(RoomTables, QuoteNames) {
  const Published published{
      .dialect = sql::Dialect::postgres, .table = "chat.it's \"x\"", .columns = {"org", "ro\"om"}};
  const auto statements = statements_of(published, false);
  const auto has = [&](std::string_view text) {
    return std::ranges::any_of(statements, [&](const std::string& one) { return one.contains(text); });
  };
  EXPECT_TRUE(has(R"(ON "chat"."it's ""x""")"));
  EXPECT_TRUE(has(R"('chat.it''s "x"')"));
  EXPECT_TRUE(has(R"(NEW."org"::text || chr(31) || NEW."ro""om"::text)"));
}

}  // namespace
}  // namespace sluice::rooms
