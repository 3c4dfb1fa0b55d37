#include "rooms/protocol.h"

#include <gtest/gtest.h>

#include "base/buffer.h"

namespace sluice::rooms {
namespace {

std::string wrong(std::string_view message) {
  CommandReader reader;
  const auto read = reader.read(message);
  return read ? "nothing" : read.error();
}

TEST(RoomCommand, IsRead) {
  CommandReader reader;
  const auto subscribe = reader.read(R"({"subscribe":"/rooms/7","id":"a\"b","offset":12,"epoch":"48151"})");
  ASSERT_TRUE(subscribe);
  EXPECT_EQ(subscribe->kind, Command::Kind::subscribe);
  EXPECT_EQ(subscribe->room, "/rooms/7");
  EXPECT_EQ(subscribe->id, R"("a\"b")");
  EXPECT_EQ(subscribe->position, (Position{.epoch = 48151, .offset = 12}));
  const auto publish = reader.read(R"( {"data": {"a": [1, "é"]}, "publish": "", "id": 3} )");
  ASSERT_TRUE(publish);
  EXPECT_EQ(publish->kind, Command::Kind::publish);
  EXPECT_EQ(publish->room, "");
  EXPECT_EQ(publish->id, "3");
  EXPECT_EQ(publish->data, R"({"a":[1,"é"]})");
  EXPECT_EQ(publish->position, std::nullopt);
  EXPECT_TRUE(reader.read(R"({"subscribe":"/a","id":")" + std::string(longest_id, 'x') + "\"}"));
  EXPECT_EQ(reader.read(R"({"subscribe":"/a","offset":null,"epoch":null})")->position, std::nullopt);
  // A position without an epoch, or with one that cannot be, is one that no counter has.
  EXPECT_EQ(reader.read(R"({"subscribe":"/a","offset":1})")->position, (Position{.epoch = 0, .offset = 1}));
  EXPECT_EQ(reader.read(R"({"subscribe":"/a","offset":1,"epoch":"x"})")->position, (Position{.epoch = 0, .offset = 1}));
}

TEST(RoomCommand, SaysWhatIsWrong) {
  EXPECT_EQ(wrong(""), "it is no JSON object");
  EXPECT_EQ(wrong("[]"), "it is no JSON object");
  EXPECT_EQ(wrong("{"), "it is no JSON object");
  EXPECT_EQ(wrong("{}"), R"(it has none, or several, of "subscribe", "unsubscribe" and "publish")");
  EXPECT_EQ(wrong(R"({"subscribe":"/a","publish":"/a","data":1})"),
            R"(it has none, or several, of "subscribe", "unsubscribe" and "publish")");
  EXPECT_EQ(wrong(R"({"subscribe":7})"), R"("subscribe" is not expected, or has a wrong type)");
  EXPECT_EQ(wrong(R"({"subscribe":"/a","x":1})"), R"("x" is not expected, or has a wrong type)");
  EXPECT_EQ(wrong(R"({"subscribe":"/a","offset":-1})"), R"("offset" is not expected, or has a wrong type)");
  EXPECT_EQ(wrong(R"({"subscribe":"/a","id":[]})"), R"("id" is not expected, or has a wrong type)");
  EXPECT_EQ(wrong(R"({"subscribe":"/a","id":")" + std::string(longest_id + 1, 'x') + "\"}"),
            R"("id" is not expected, or has a wrong type)");
  EXPECT_EQ(wrong(R"({"publish":"/a"})"), R"("data" is the row of "publish")");
  EXPECT_EQ(wrong(R"({"subscribe":"/a","data":1})"), R"("data" is the row of "publish")");
}

TEST(RoomMessage, AreAsThePageSays) {
  const Position at{.epoch = 48151, .offset = 12};
  EXPECT_EQ(subscribed("/rooms/7", at, true, "1"),
            R"({"type":"subscribed","room":"/rooms/7","offset":12,"epoch":"48151","recovered":true,"id":1})");
  EXPECT_EQ(Publication("/rooms/7", 13, R"({"seq":13})").message(),
            R"({"type":"publication","room":"/rooms/7","offset":13,"data":{"seq":13}})");
  EXPECT_EQ(Publication("/rooms/7", 13, R"({"seq":13})").data(), R"({"seq":13})");
  EXPECT_EQ(reset("/rooms/7", at, "behind"),
            R"({"type":"reset","room":"/rooms/7","offset":12,"epoch":"48151","reason":"behind"})");
  EXPECT_EQ(unsubscribed("/rooms/7", 403, "a \"b\"", {}),
            R"({"type":"unsubscribed","room":"/rooms/7","status":403,"detail":"a \"b\""})");
  EXPECT_EQ(published("/rooms/7", 201, "3"), R"({"type":"published","room":"/rooms/7","status":201,"id":3})");
  EXPECT_EQ(refused("/rooms/7", 422, R"({"type":"about:blank","title":"T","status":422,"detail":"d"})", "7", "3"),
            R"({"type":"error","room":"/rooms/7","title":"T","status":422,"detail":"d","retry_after":7,"id":3})");
  EXPECT_EQ(refused("/rooms/7", 502, "<html>", {}, {}), R"({"type":"error","room":"/rooms/7","status":502})");
}

TEST(RoomEvent, HasOneLineOfData) {
  Buffer out;
  append_event(out, {.epoch = 1, .offset = 2}, "{\"a\":\n{\"b\":\r\n1}}");
  EXPECT_EQ(out.view(), "id: 1-2\ndata: {\"a\":{\"b\":1}}\n\n");
  EXPECT_EQ(subscribed_event("/r", {.epoch = 1, .offset = 2}, false),
            "event: subscribed\nid: 1-2\ndata: {\"room\":\"/r\",\"offset\":2,\"epoch\":\"1\",\"recovered\":false}\n\n");
}

TEST(RoomPosition, IsReadFromAnId) {
  EXPECT_EQ(parse_id("48151-12"), (Position{.epoch = 48151, .offset = 12}));
  EXPECT_EQ(parse_id(id_of({.epoch = UINT64_MAX, .offset = 0})), (Position{.epoch = UINT64_MAX, .offset = 0}));
  for (const char* text : {"", "-", "1", "1-", "-1", "1-2-3", "a-1", "1--2", "1-99999999999999999999"}) {
    EXPECT_EQ(parse_id(text), std::nullopt) << text;
  }
}

SharedPublication publication(std::uint64_t offset) { return std::make_shared<const Publication>("/r", offset, "{}"); }

TEST(Kept, KeepsTheNewestAndKnowsWhatIsMissing) {
  Kept kept;
  kept.begin(7, 10);
  EXPECT_TRUE(kept.covers({.epoch = 7, .offset = 10}));
  EXPECT_FALSE(kept.covers({.epoch = 7, .offset = 9}));
  EXPECT_FALSE(kept.covers({.epoch = 7, .offset = 11}));
  EXPECT_FALSE(kept.covers({.epoch = 8, .offset = 10}));
  EXPECT_TRUE(kept.is_whole_after(10));
  kept.append({publication(11), publication(13)}, 14);
  EXPECT_EQ(kept.last, 14U);
  EXPECT_FALSE(kept.is_whole_after(10));  // 12 and 14 were deleted
  EXPECT_FALSE(kept.is_whole_after(12));
  EXPECT_TRUE(kept.is_whole_after(14));
  EXPECT_EQ((*kept.after(10))->offset, 11U);
  EXPECT_EQ((*kept.after(11))->offset, 13U);
  EXPECT_EQ(kept.after(13), nullptr);
  kept.append({publication(15), publication(16)}, 16);
  kept.trim({.count = 2, .bytes = 1 << 20});
  EXPECT_EQ(kept.from, 13U);
  EXPECT_EQ((*kept.after(0))->offset, 15U);
  EXPECT_TRUE(kept.is_whole_after(14));
  kept.trim({.count = 100, .bytes = 1});
  EXPECT_EQ(kept.all.size(), 1U);
  EXPECT_EQ(kept.bytes, kept.all.front()->bytes());
}

}  // namespace
}  // namespace sluice::rooms
