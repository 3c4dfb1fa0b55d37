#include "http/h2/session.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include <gtest/gtest.h>

#include "http/h2/guard.h"
#include "http/h2/session_for_tests.h"

namespace sluice::http::h2 {
namespace {

// ---- Answers ----

TEST_F(SessionTest, EveryKindOfBodyArrives) {
  TestClient client;
  const std::pair<std::string, std::string> bodies[] = {
      {"/own/5/1", pattern(1, 5)},
      {"/own/300000/2", pattern(2, 300'000)},
      {"/own/0/1", ""},
      {"/shared/200000/3", pattern(3, 200'000)},
      {"/file/150000/7", pattern(0, TestHandler::file_size).substr(7, 150'000)},
      {"/stream/100000/4", pattern(4, 100'000)},
      {"/stream/0/4", ""},
      {"/waits/20000/5", pattern(5, 20'000)},
      {"/later/10/6", pattern(6, 10)},
      {"/empty", ""},
      {"/spans/1/0", pattern(0, 1)},
      {"/spans/3000/0", pattern(0, 3000)},
      {"/spans/200000/1", pattern(1, 200'000)},
      {"/spans/500000/2000", pattern(2000, 500'000)},
      {"/spans/0/1", ""},
  };
  std::map<std::int32_t, std::string> expected;
  for (int i = 0; i < 4; ++i) {
    for (const auto& [path, body] : bodies) expected[client.get(path)] = body;
  }
  talk(client, 200ms);
  for (const auto& [id, body] : expected) {
    const TestClient::Answer& answer = client.answers[id];
    EXPECT_EQ(answer.body, body) << id;
    EXPECT_TRUE(answer.ended && answer.closed);
    EXPECT_EQ(answer.error, 0u);
    EXPECT_EQ(answer.fields.at("server"), "sluice");
    EXPECT_TRUE(answer.fields.at("date").ends_with(" GMT"));
  }
  EXPECT_EQ(client.answers[1].status, 200);
  EXPECT_EQ(client.answers[1].fields.at("content-type"), "text/plain");
  EXPECT_EQ(client.answers[1].fields.at("content-length"), "5");
  EXPECT_EQ(client.answers[19].status, 204);
  EXPECT_FALSE(client.answers[19].fields.contains("content-length"));
  EXPECT_EQ(client.answers[11].trailers.at("row-count"), "100000");
  EXPECT_FALSE(client.answers[11].fields.contains("content-length"));
  EXPECT_EQ(completions.size(), 60u);
  for (const Completed& each : completions) EXPECT_TRUE(each.is_request && !each.broken);
  EXPECT_TRUE(client.goaways.empty());
}

// A stream object serves many requests. None of them sees what policies learned about an earlier one.
TEST_F(SessionTest, AttributesEndWithTheirRequest) {
  TestClient client;
  for (int i = 0; i < 5; ++i) {
    client.get("/own/5/1");
    client.get("/waits/5000/1");
    talk(client, 50ms);
    EXPECT_TRUE(handler.claims.expired());
  }
  EXPECT_EQ(handler.requests, 10);
  EXPECT_EQ(handler.foreign_attributes, 0);
}

TEST_F(SessionTest, HeadHasTheLengthAndNoBody) {
  TestClient client;
  const auto own = client.get("/own/5000/1", {}, "HEAD");
  const auto stream = client.get("/stream/5000/1", {}, "HEAD");
  talk(client);
  EXPECT_TRUE(client.answers[own].ended);
  EXPECT_EQ(client.answers[own].fields.at("content-length"), "5000");
  EXPECT_EQ(client.answers[own].body, "");
  EXPECT_TRUE(client.answers[stream].ended);
  EXPECT_EQ(handler.pulls, 0);
}

TEST_F(SessionTest, FieldsGoAsHttp2HasThem) {
  TestClient client;
  const auto id =
      client.get("/fields/../fields?x", {{"cookie", "a=1"}, {"x", "y"}, {"cookie", "b=2"}, {"expect", "100-continue"}});
  talk(client);
  const TestClient::Answer& answer = client.answers[id];
  EXPECT_EQ(answer.body, "cookie: a=1; b=2\nx: y\nexpect: 100-continue\n");
  EXPECT_EQ(answer.fields.at("x-path"), "/fields");
  EXPECT_EQ(answer.fields.at("x-authority"), "test");
  EXPECT_EQ(answer.fields.at("x-spaces"), "a b");
  EXPECT_EQ(answer.fields.at("content-length"), std::to_string(answer.body.size()));
  for (const char* name : {"connection", "bad name", "x-bad-value", "transfer-encoding"}) {
    EXPECT_FALSE(answer.fields.contains(name)) << name;
  }
}

TEST_F(SessionTest, AHeaderThatNoFrameHoldsGoesInSeveral) {
  TestClient client;
  for (const std::size_t size : {16'300, 16'400, 32'700, 50'000}) {
    const auto id = client.get("/long-field/" + std::to_string(size) + "/1");
    const auto next = client.get("/own/10/1");
    talk(client);
    EXPECT_EQ(client.answers[id].fields["x-long"], pattern(1, size)) << size;
    EXPECT_TRUE(client.answers[id].ended);
    EXPECT_EQ(client.answers[next].body, pattern(1, 10));
  }
  EXPECT_TRUE(client.goaways.empty());
}

TEST_F(SessionTest, TheTableOfFieldsIsAsLargeAsTheClientAllows) {
  for (const std::uint32_t size : {0u, 40u, 120u, 400u, 4095u, 4097u, 65'536u}) {
    session.reset();
    session = std::make_unique<Session>(*engine, *this, "192.0.2.1", false);
    TestClient client({.header_table = size});
    for (int i = 0; i < 12; ++i) {
      const auto id = client.get("/fields/" + std::to_string(i / 3));
      const auto stream = client.get("/stream/100/1");
      talk(client);
      EXPECT_EQ(client.answers[id].fields.at("x-path"), "/fields/" + std::to_string(i / 3)) << size;
      EXPECT_EQ(client.answers[stream].fields.at("server"), "sluice");
      EXPECT_EQ(client.answers[stream].trailers.at("row-count"), "100") << size;
      // The client may change the table size again, even between a response's head and its trailers.
      const auto waiting = client.get("/waits/4000/1");
      session->receive(client.take_output());
      EXPECT_TRUE(client.receive(produced()));
      client.resize_header_table(static_cast<std::uint32_t>(i * 37 % 200));
      talk(client, 100ms);
      EXPECT_EQ(client.answers[waiting].trailers.at("row-count"), "4000") << size;
    }
    EXPECT_TRUE(client.goaways.empty());
  }
}

TEST_F(SessionTest, TheAnswersDoNotDependOnHowTheBytesCome) {
  TestClient client;
  client.get("/own/100/1");
  client.get("/fields", {{"cookie", "a"}, {"cookie", "b"}, {"x-long", std::string(300, 'x')}});
  client.post("/own/20/2", pattern(1, 3000));
  client.get("/stream/4000/3");
  client.get("/nothing/../..");
  client.post("/echo", pattern(2, 500));
  const std::string bytes = client.take_output();
  session->receive(bytes);
  const std::string whole = produced();
  EXPECT_EQ(handler.requests, 5);
  const auto bodies = [](const std::string& output) {
    std::map<std::uint32_t, std::string> found;
    for (const TestFrame& frame : frames_of(output)) {
      if (frame.type == data_type || frame.type == headers_type) found[frame.id] += frame.payload;
    }
    return found;
  };
  EXPECT_EQ(bodies(whole).size(), 6u);
  for (std::size_t split = 1; split < bytes.size(); ++split) {
    session.reset();
    session = std::make_unique<Session>(*engine, *this, "192.0.2.1", false);
    session->receive(std::string_view(bytes).substr(0, split));
    session->receive(std::string_view(bytes).substr(split));
    ASSERT_EQ(bodies(produced()), bodies(whole)) << split;
  }
  session.reset();
  session = std::make_unique<Session>(*engine, *this, "192.0.2.1", false);
  for (const char& byte : bytes) session->receive({&byte, 1});
  EXPECT_EQ(bodies(produced()), bodies(whole));
}

// ---- Requests' bodies ----

TEST_F(SessionTest, ABodyIsReadThroughItsWindow) {
  TestClient client;
  const std::string body = pattern(9, 1'000'000);
  const auto id = client.post("/echo", body);
  const auto short_one = client.post("/echo", "short");
  const auto none = client.post("/echo", "");
  talk(client, 500ms);
  EXPECT_EQ(client.answers[id].body, body);
  EXPECT_EQ(client.answers[short_one].body, "short");
  EXPECT_EQ(client.answers[none].status, 200);
  EXPECT_GT(client.window_updates, 2);
}

TEST_F(SessionTest, AClientThatExpectsToContinueIsTold) {
  TestClient client;
  const TestFields expecting{{"expect", "100-Continue"}};
  const auto id = client.post("/echo", "", expecting, false);
  talk(client);
  EXPECT_EQ(client.answers[id].status, 100);
  EXPECT_FALSE(client.answers[id].ended);
  client.say(id, "hello");
  talk(client);
  EXPECT_EQ(client.answers[id].status, 100);
  client.say(id, " world");
  client.end_side(id);
  talk(client);
  EXPECT_EQ(client.answers[id].interim, std::vector{100}) << "once";
  EXPECT_EQ(client.answers[id].status, 200);
  EXPECT_EQ(client.answers[id].body, "hello world");
}

TEST_F(SessionTest, AClientIsToldToContinueOnlyIfItsBodyIsWaitedFor) {
  TestClient client;
  const TestFields expecting{{"expect", "100-continue"}};
  options.body_limit = options.most_body = 1000;
  const auto unread = client.post("/own/3/1", "", expecting, false);
  const auto refused = client.post("/echo", "", {{"expect", "100-continue"}, {"content-length", "1001"}}, false);
  const auto unasked = client.post("/echo", "hello", expecting);
  const auto other = client.post("/echo", "", {{"expect", "more"}}, false);
  const auto none = client.post("/echo", "", {}, false);
  talk(client);
  for (const auto id : {unread, refused, unasked, other}) {
    EXPECT_TRUE(client.answers[id].ended) << id;
    EXPECT_TRUE(client.answers[id].interim.empty()) << id;
  }
  EXPECT_EQ(client.answers[unread].status, 200);
  EXPECT_EQ(client.answers[refused].status, 413);
  EXPECT_EQ(client.answers[unasked].body, "hello");
  EXPECT_EQ(client.answers[other].status, 417);
  EXPECT_EQ(client.answers[none].status, 0);
}

// The response's head does not wait for the body.
TEST_F(SessionTest, TheHeadGoesBeforeABodyThatIsNotThereYet) {
  TestClient client;
  const auto id = client.get("/blocks/0/1");
  talk(client);
  EXPECT_EQ(client.answers[id].status, 200);
  EXPECT_FALSE(client.answers[id].ended);
}

TEST_F(SessionTest, NothingIsAskedForBeyondWhatTheHandlerReads) {
  TestClient client;
  client.post("/one-piece", pattern(1, 900'000));
  talk(client);
  EXPECT_EQ(handler.waiting, 1);
  // The first piece was read, and the window was opened for it. The bytes after it are unread, within the window.
  const int updates = client.window_updates;
  talk(client);
  EXPECT_EQ(client.window_updates, updates);
  EXPECT_LE(nghttp2_session_get_stream_remote_window_size(client.session(), 1), 0);
}

TEST_F(SessionTest, WhatNobodyHasReadComesBackToTheConnection) {
  TestClient client;
  for (int i = 0; i < 20; ++i) {
    const auto id = client.post("/one-piece", pattern(1, 200'000), {}, false);
    talk(client);
    client.reset(id);
    talk(client);
  }
  EXPECT_EQ(handler.requests, 20);
  EXPECT_EQ(handler.waiting, 0);
  const auto id = client.post("/echo", pattern(3, 100'000));
  talk(client);
  EXPECT_EQ(client.answers[id].body, pattern(3, 100'000));
}

TEST_F(SessionTest, ABodyThatNobodyReadsIsDroppedOrRefused) {
  TestClient client;
  const auto small = client.post("/own/10/1", pattern(1, 30'000));
  const auto large = client.post("/own/10/2", pattern(1, 900'000));
  const auto told = client.post("/own/10/3", pattern(1, 900'000), {{"content-length", "900000"}});
  const auto open = client.post("/own/10/4", "abc", {}, false);
  talk(client);
  for (const auto id : {small, large, told, open}) {
    EXPECT_EQ(client.answers[id].body.size(), 10u);
    EXPECT_TRUE(client.answers[id].ended);
  }
  EXPECT_TRUE(client.answers[small].closed);
  EXPECT_FALSE(client.answers[large].closed || client.answers[told].closed || client.answers[open].closed);
  EXPECT_LT(session->expire(reactor.now()), reactor.now() + 2s);
  (void)session->expire(reactor.now() + 3s);
  talk(client);
  for (const auto id : {large, told, open}) {
    EXPECT_TRUE(client.answers[id].closed);
    EXPECT_EQ(client.answers[id].error, 0u);
  }
  // The unread bytes no longer count against the connection's window.
  const auto after = client.post("/echo", pattern(5, 100'000));
  talk(client);
  EXPECT_EQ(client.answers[after].body, pattern(5, 100'000));
  for (const Completed& each : completions) EXPECT_FALSE(each.broken);
  EXPECT_EQ(completions.size(), 5u);
}

TEST_F(SessionTest, TooLongABodyIs413) {
  options.body_limit = 10'000;
  TestClient client;
  const auto told = client.post("/echo", pattern(1, 10'001), {{"content-length", "10001"}});
  const auto untold = client.post("/echo", pattern(1, 10'001));
  const auto ignored = client.post("/never", pattern(1, 5), {{"content-length", "99999999999999999999"}}, false);
  const auto just = client.post("/echo", pattern(1, 10'000));
  talk(client, 100ms);
  EXPECT_EQ(client.answers[told].status, 413);
  EXPECT_EQ(client.answers[untold].status, 413);
  EXPECT_EQ(client.answers[ignored].status, 413);
  EXPECT_EQ(client.answers[just].status, 200);
}

class BodyMemoryTest : public SessionTest {
 protected:
  BodyMemoryTest() { options.body_memory = 400'000; }  // which allows 100,000 for each connection
};

TEST_F(BodyMemoryTest, StreamsShareWhatTheirConnectionMayHold) {
  TestClient client;
  const auto silent = client.post("/keep", "", {}, false);
  talk(client);
  const std::uint64_t of_a_stream = counters.bodies.held;
  client.reset(silent);
  // The piece that the handler is using counts too, until the next read.
  const auto first = client.post("/keep", pattern(1, 40'000), {}, false);
  talk(client);
  const auto second = client.post("/keep", pattern(1, 40'000), {}, false);
  talk(client);
  const auto third = client.post("/keep", pattern(1, 10'000));
  talk(client);
  EXPECT_EQ(client.answers[second].status, 503);
  EXPECT_EQ(client.answers[second].fields.at("retry-after"), "1");
  EXPECT_EQ(client.answers[third].body, "10000");
  EXPECT_EQ(client.answers[first].status, 0);
  client.reset(second);
  talk(client);
  EXPECT_EQ(counters.bodies.held, of_a_stream + 40'000u);
  EXPECT_EQ(counters.bodies.refused, 1u);
  client.reset(first);
  talk(client);
  EXPECT_EQ(counters.bodies.held, 0u);
}

TEST_F(BodyMemoryTest, WholeAnswersCountUntilTheyAreTaken) {
  TestClient client({.window = 0});
  const auto small = client.get("/own/4096");
  talk(client);
  const std::uint64_t of_a_stream = counters.bodies.held;
  const auto first = client.get("/own/60000/1");
  const auto second = client.get("/own/30000/2");
  talk(client);
  EXPECT_EQ(counters.bodies.held, 3 * of_a_stream + 90'000u);
  // The connection holds all that it may: a quarter.
  const auto read = client.get("/own/30000/3");
  const auto written = client.post("/own/30000/3", "");
  talk(client);
  client.open_window(read, 1000);
  client.open_window(written, 1000);
  talk(client);
  EXPECT_EQ(client.answers[read].status, 503);
  EXPECT_EQ(client.answers[read].fields.at("retry-after"), "1");
  // A request that may have changed something must not be retried.
  EXPECT_EQ(client.answers[written].status, 500);
  EXPECT_FALSE(client.answers[written].fields.contains("retry-after"));
  EXPECT_EQ(counters.bodies.refused, 2u);
  for (const auto id : {small, first, second}) client.open_window(id, 60'000);
  talk(client);
  EXPECT_EQ(client.answers[first].body, pattern(1, 60'000));
  EXPECT_EQ(client.answers[second].body, pattern(2, 30'000));
  EXPECT_EQ(counters.bodies.held, 0u);
}

TEST_F(BodyMemoryTest, AnswersThatNobodyTakesMakeRoom) {
  TestClient client({.window = 0});
  const auto still = client.get("/own/90000/1");
  talk(client);
  talk(client, 2s);
  std::uint64_t connections[3]{};
  struct Other final : BodyBudget::Share {
    using Share::Share;
    void cut() override {}
  } others[3]{{*bodies, connections[0]}, {*bodies, connections[1]}, {*bodies, connections[2]}};
  for (Other& other : others) EXPECT_EQ(other.take(100'000), BodyBudget::Share::Taken::yes);
  std::uint64_t another = 0;
  Other one_more(*bodies, another);
  EXPECT_EQ(one_more.take(50'000), BodyBudget::Share::Taken::yes);
  talk(client);
  EXPECT_TRUE(client.answers[still].closed);
  EXPECT_EQ(client.answers[still].error, internal_error);
  EXPECT_EQ(counters.bodies.cut, 1u);
  EXPECT_EQ(counters.bodies.held, 350'000u);
}

TEST_F(BodyMemoryTest, WhatNobodyReadsCounts) {
  TestClient client;
  client.post("/never", pattern(1, 90'000), {}, false);
  const auto other = client.post("/never", pattern(1, 90'000), {}, false);
  const auto refused = client.post("/keep", pattern(1, 90'000));
  talk(client);
  EXPECT_EQ(client.answers[refused].status, 503);
  EXPECT_LE(counters.bodies.held, 100'000u);
  EXPECT_GE(counters.bodies.refused, 2u);
  client.reset(1);
  client.reset(other);
  talk(client);
  EXPECT_EQ(counters.bodies.held, 0u);
  const auto after = client.post("/keep", pattern(1, 45'000));
  talk(client);
  EXPECT_EQ(client.answers[after].body, "45000");
}

TEST_F(BodyMemoryTest, MoreThanAConnectionMayHoldIs413) {
  TestClient client;
  const auto id = client.post("/keep", pattern(1, 100'001));
  talk(client);
  EXPECT_EQ(client.answers[id].status, 413);
  EXPECT_EQ(counters.bodies.held, 0u);
}

TEST_F(BodyMemoryTest, ABodyThatHasComeToAStandIsCutWhereOthersNeedTheRoom) {
  struct Other final : BodyBudget::Share {
    using Share::Share;
    void cut() override {}
  };
  TestClient client;
  const auto still = client.post("/keep", pattern(1, 45'000), {}, false);
  talk(client);
  std::uint64_t connections[4]{};
  Other others[]{
      {*bodies, connections[0]}, {*bodies, connections[1]}, {*bodies, connections[2]}, {*bodies, connections[3]}};
  for (int i = 0; i < 3; ++i) EXPECT_EQ(others[i].take(100'000), Other::Taken::yes);
  EXPECT_EQ(others[3].take(90'000), Other::Taken::no);
  talk(client, 2s);
  EXPECT_EQ(client.answers[still].status, 0);
  EXPECT_EQ(others[3].take(90'000), Other::Taken::yes);
  EXPECT_EQ(counters.bodies.cut, 1u);
  talk(client);
  EXPECT_EQ(client.answers[still].status, 503);
  EXPECT_EQ(client.answers[still].fields.at("retry-after"), "1");
  EXPECT_GT(counters.bodies.held, 390'000u);  // the stream is still open
  client.reset(still);
  talk(client);
  EXPECT_EQ(counters.bodies.held, 390'000u);
}

// Streams are counted even if only their header section has arrived.
TEST_F(BodyMemoryTest, AStreamForWhichThereIsNoRoomIsRefusedUnseen) {
  TestClient client;
  std::vector<std::int32_t> ids;
  for (int i = 0; i < 100; ++i) ids.push_back(client.post("/keep", "", {}, false));
  talk(client);
  const auto refused = static_cast<std::size_t>(
      std::ranges::count_if(ids, [&](std::int32_t id) { return client.answers[id].error == refused_stream; }));
  EXPECT_GT(refused, 60u);
  EXPECT_LT(refused, 80u);
  EXPECT_EQ(handler.requests, static_cast<int>(100 - refused));
  EXPECT_EQ(counters.bodies.refused, refused);
  EXPECT_LE(counters.bodies.held, 400'000u);
  const auto early = client.get("/own/10/1");
  talk(client);
  EXPECT_EQ(client.answers[early].error, refused_stream);
  // A closed stream makes room, and so do stalled ones.
  client.reset(ids[0]);
  talk(client);
  const auto after = client.get("/own/10/1");
  talk(client);
  EXPECT_EQ(client.answers[after].body.size(), 10u);
  const auto filling = client.post("/keep", "", {}, false);
  talk(client, 2s);
  EXPECT_EQ(counters.bodies.cut, 0u);
  const auto last = client.post("/keep", "abc");
  talk(client);
  EXPECT_EQ(client.answers[last].body, "3");
  EXPECT_EQ(client.answers[ids[1]].status, 503);
  EXPECT_EQ(client.answers[filling].status, 0);
  EXPECT_LE(counters.bodies.cut, 2u);
  session->end();
  EXPECT_EQ(counters.bodies.held, 0u);
}

TEST_F(BodyMemoryTest, AStreamsHeaderCounts) {
  TestClient client;
  client.get("/later/10");
  talk(client, 0ms);
  const std::uint64_t small = counters.bodies.held;
  client.get("/later/10", {{"x-long", pattern(1, 10'000)}});
  talk(client, 0ms);
  EXPECT_GT(small, 0u);
  EXPECT_GT(counters.bodies.held, 2 * small + 10'000);
  talk(client, 1s);
  EXPECT_EQ(counters.bodies.held, 0u);
}

TEST_F(SessionTest, AHandlerMayAllowMore) {
  options.body_limit = 10'000;
  options.most_body = 14'000;
  TestClient client;
  const auto plain = client.post("/echo", pattern(1, 10'001));
  const auto told = client.post("/echo", pattern(1, 10'001), {{"content-length", "10001"}});
  const auto more = client.post("/echo-more", pattern(1, 14'000));
  const auto told_more = client.post("/echo-more", pattern(1, 14'000), {{"content-length", "14000"}});
  const auto too_much = client.post("/echo-more", pattern(1, 14'001));
  const auto unread = client.post("/fixed/10", pattern(1, 12'000), {{"content-length", "12000"}});
  talk(client, 100ms);
  EXPECT_EQ(client.answers[plain].status, 413);
  EXPECT_EQ(client.answers[told].status, 413);
  EXPECT_EQ(client.answers[more].status, 200);
  EXPECT_EQ(client.answers[more].body, pattern(1, 14'000));
  EXPECT_EQ(client.answers[told_more].body, pattern(1, 14'000));
  EXPECT_EQ(client.answers[too_much].status, 413);
  EXPECT_NE(client.answers[unread].status, 413) << "nobody has read it";
}

TEST_F(SessionTest, ABodyThatDoesNotComeIs408) {
  options.body_timeout = 100ms;
  TestClient client;
  const auto id = client.post("/echo", "half", {}, false);
  talk(client, 80ms);
  EXPECT_EQ(client.answers[id].status, 0);
  talk(client, 200ms);
  EXPECT_EQ(client.answers[id].status, 408);
  EXPECT_EQ(completions.size(), 0u) << "the client may still end its side";
  (void)session->expire(reactor.now() + 3s);
  talk(client);
  ASSERT_EQ(completions.size(), 1u);
  EXPECT_EQ(completions[0].status, 408);
}

TEST_F(SessionTest, ALengthThatIsNotKeptIsAStreamError) {
  TestClient client({.enforces = false});
  const auto shorter = client.post("/echo", "abc", {{"content-length", "4"}});
  const auto longer = client.post("/echo", "abcde", {{"content-length", "4"}});
  const auto right = client.post("/echo", "abcd", {{"content-length", "4"}});
  talk(client);
  EXPECT_EQ(client.answers[shorter].error, protocol_error);
  EXPECT_EQ(client.answers[longer].error, protocol_error);
  EXPECT_EQ(client.answers[right].body, "abcd");
  EXPECT_EQ(handler.waiting, 0);
}

// ---- Refusals ----

TEST_F(SessionTest, LimitsAreAnswered) {
  TestClient client;
  const auto large = client.get("/own/1/1", {{"x", std::string(20'000, 'x')}});
  const auto many = client.get("/own/1/1", TestFields(129, {"x", "y"}));
  const auto cookies = client.get("/own/1/1", TestFields(129, {"cookie", "y"}));
  const auto long_target = client.get("/" + std::string(9'000, 'x'));
  const auto above = client.get("/../x");
  const auto host = client.get("/own/1/1", {{"host", "other"}});
  const auto after = client.get("/own/1/1");
  talk(client);
  EXPECT_EQ(client.answers[large].status, 431);
  EXPECT_EQ(client.answers[many].status, 431);
  EXPECT_EQ(client.answers[cookies].status, 431);
  EXPECT_EQ(client.answers[long_target].status, 414);
  EXPECT_EQ(client.answers[above].status, 400);
  EXPECT_EQ(client.answers[host].status, 400);
  EXPECT_EQ(client.answers[above].fields.at("content-type"), "application/problem+json");
  EXPECT_EQ(client.answers[after].status, 200);
  EXPECT_EQ(handler.requests, 1);
  ASSERT_EQ(completions.size(), 7u);
  EXPECT_FALSE(completions[0].is_request);
}

TEST_F(SessionTest, MalformedRequestsAreStreamErrors) {
  const TestFields wrong[] = {
      {{":method", "GET"}, {":scheme", "http"}, {":path", "/"}},
      {{":method", "GET"}, {":scheme", "http"}, {":authority", "test"}},
      {{":method", "GET"}, {":authority", "test"}, {":path", "/"}},
      {{":scheme", "http"}, {":authority", "test"}, {":path", "/"}},
      {{":method", "GET"}, {":scheme", "http"}, {":authority", "test"}, {":path", ""}},
      {{":method", "GET"}, {":scheme", "http"}, {":authority", "test"}, {":path", "/"}, {":path", "/"}},
      {{":method", "GET"}, {":scheme", "http"}, {":authority", "test"}, {":path", "/"}, {":unknown", "x"}},
      {{":method", "GET"}, {":scheme", "http"}, {":authority", "test"}, {"x", "y"}, {":path", "/"}},
      {{":method", "GET"}, {":scheme", "http"}, {":authority", "test"}, {":path", "/"}, {"connection", "close"}},
      {{":method", "GET"}, {":scheme", "http"}, {":authority", "test"}, {":path", "/"}, {"upgrade", "x"}},
      {{":method", "GET"}, {":scheme", "http"}, {":authority", "test"}, {":path", "/"}, {"keep-alive", "x"}},
      {{":method", "GET"},
       {":scheme", "http"},
       {":authority", "test"},
       {":path", "/"},
       {"transfer-encoding", "chunked"}},
      {{":method", "GET"}, {":scheme", "http"}, {":authority", "test"}, {":path", "/"}, {"te", "gzip"}},
      {{":method", "GET"}, {":scheme", "http"}, {":authority", "test"}, {":path", "/"}, {"a b", "x"}},
      {{":method", "GET"}, {":scheme", "http"}, {":authority", "test"}, {":path", "/"}, {"a", "x\ny"}},
      {{":method", "GET"}, {":scheme", "http"}, {":authority", "test"}, {":path", "/"}, {"a", std::string(1, '\0')}},
      {{":method", "GET"}, {":scheme", "http"}, {":authority", "test"}, {":path", "/"}, {"content-length", "x"}},
      {{":method", "G T"}, {":scheme", "http"}, {":authority", "test"}, {":path", "/"}},
  };
  TestClient client({.enforces = false});
  std::vector<std::int32_t> ids;
  for (const TestFields& fields : wrong) ids.push_back(client.request_with(fields));
  const auto right = client.get("/own/1/1");
  talk(client);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const TestClient::Answer& answer = client.answers[ids[i]];
    EXPECT_TRUE(answer.error == protocol_error || answer.status == 400) << i << ": " << answer.status;
  }
  EXPECT_EQ(client.answers[right].status, 200);
  EXPECT_EQ(handler.requests, 1);
}

TEST_F(SessionTest, UpperCaseNamesAreRefused) {
  begin_by_hand();
  std::string block = header_block("/own/1/1");
  block += std::string("\0\1X\1y", 5);
  session->receive(frame(headers_type, end_stream | end_headers, 1, block));
  bool reset = false;
  for (const TestFrame& frame : frames_of(produced()))
    reset |= frame.type == reset_type && frame.number(0) == protocol_error;
  EXPECT_TRUE(reset);
  EXPECT_EQ(handler.requests, 0);
}

TEST_F(SessionTest, MoreStreamsThanAllowedAreRefused) {
  options.http2_streams = 3;
  make();
  begin_by_hand();
  std::string bytes;
  for (std::uint32_t id = 1; id < 11; id += 2) {
    bytes += frame(headers_type, end_stream | end_headers, id, header_block("/never"));
  }
  session->receive(bytes);
  EXPECT_EQ(handler.waiting, 3);
  int refused = 0;
  for (const TestFrame& frame : frames_of(produced())) {
    refused += frame.type == reset_type && frame.number(0) == refused_stream ? 1 : 0;
  }
  EXPECT_EQ(refused, 2);
  // Frames in transit for a refused stream are ignored.
  session->receive(frame(data_type, 0, 9, "abc"));
  EXPECT_FALSE(goaway());
  EXPECT_FALSE(session->over());
}

TEST_F(SessionTest, NotThePrefaceEndsIt) {
  session->receive("GET / HTTP/1.1\r\nHost: test\r\n\r\n");
  (void)produced();
  EXPECT_TRUE(session->over());
}

// ---- Flow control ----

TEST_F(SessionTest, ASourceIsPulledOnlyAsTheWindowAllows) {
  TestClient client({.opens_windows = false, .window = 10'000});
  const auto id = client.get("/stream/100000/1");
  talk(client);
  EXPECT_EQ(client.answers[id].body.size(), 10'000u);
  const std::size_t ahead = BodyBudget::small_answer_bytes + 1600;
  EXPECT_LE(handler.pulled, 10'000u + ahead);
  client.open_window(id, 5'000);
  talk(client);
  EXPECT_EQ(client.answers[id].body.size(), 15'000u);
  EXPECT_LE(handler.pulled, 15'000u + ahead);
  client.open_window(id, 100'000);
  client.open_window(0, 100'000);
  talk(client);
  EXPECT_EQ(client.answers[id].body, pattern(1, 100'000));
  EXPECT_EQ(client.answers[id].trailers.at("row-count"), "100000");
}

// The window of a stream or of the connection is shut. Only what the client holds up waits for it.
TEST_F(SessionTest, ASmallAnswerIsTakenOverWhileTheWindowIsShut) {
  for (const bool of_connection : {false, true}) {
    make();
    TestClient client({.opens_windows = false, .window = of_connection ? 1u << 20 : 0u});
    const auto large = client.get("/plain/100000/1");
    talk(client);
    std::vector<std::int32_t> small;
    for (int i = 0; i < 20; ++i) small.push_back(client.get("/plain/3000/" + std::to_string(i)));
    talk(client);
    EXPECT_EQ(handler.sources, 1) << "that of the large one";
    EXPECT_EQ(completions.size(), 0u);
    const auto breaks = client.get("/breaks/3000/1");
    talk(client);
    EXPECT_TRUE(client.answers[breaks].closed);
    if (of_connection) client.open_window(0, 1 << 20);
    for (const auto id : small) client.open_window(id, 3000);
    talk(client);
    for (int i = 0; i < 20; ++i) {
      EXPECT_EQ(client.answers[small[static_cast<std::size_t>(i)]].body, pattern(static_cast<std::size_t>(i), 3000));
      EXPECT_TRUE(client.answers[small[static_cast<std::size_t>(i)]].ended);
    }
    client.open_window(large, 1 << 20);
    client.open_window(0, 1 << 20);
    talk(client);
    EXPECT_EQ(client.answers[large].body, pattern(1, 100'000));
    completions.clear();
  }
}

TEST_F(SessionTest, AnAnswerThatIsTakenOverMayComeLater) {
  TestClient client({.opens_windows = false, .window = 0});
  const auto id = client.get("/waits/4000/3");
  talk(client);
  EXPECT_EQ(handler.pulled, 4000u);
  client.open_window(id, 4000);
  talk(client);
  EXPECT_EQ(client.answers[id].body, pattern(3, 4000));
  EXPECT_TRUE(client.answers[id].ended);
}

// A window that opens while the source is being pulled must not send what the source is writing.
TEST_F(SessionTest, TheWindowMayOpenWhileAnAnswerIsTakenOver) {
  for (Duration at = 0ms; at < 5ms; at += 250us) {
    make();
    TestClient client({.opens_windows = false, .window = 0});
    const auto id = client.get("/waits/4000/3");
    talk(client, at);
    client.open_window(id, 4000);
    talk(client);
    EXPECT_EQ(client.answers[id].body, pattern(3, 4000));
    EXPECT_TRUE(client.answers[id].ended);
  }
}

// An answer that uses the window up exactly, and whose end is known only then.
TEST_F(SessionTest, AnAnswerEndsThoughTheWindowIsUsedUp) {
  for (const bool of_connection : {false, true}) {
    make();
    const std::size_t size = of_connection ? 65'535 : 3200;
    TestClient client({.opens_windows = false, .window = of_connection ? 1u << 20 : 3200u});
    const auto plain = client.get("/plain/" + std::to_string(size) + "/1");
    talk(client);
    EXPECT_TRUE(client.answers[plain].ended);
    EXPECT_TRUE(client.answers[plain].trailers.empty());
    if (of_connection) client.open_window(0, 65'535);
    const auto trailed = client.get("/trailed/" + std::to_string(size) + "/2");
    talk(client);
    EXPECT_TRUE(client.answers[trailed].ended);
    EXPECT_EQ(client.answers[trailed].trailers.at("row-count"), std::to_string(size));
    EXPECT_EQ(client.answers[trailed].body, pattern(2, size));
    ASSERT_EQ(completions.size(), 2u);
    for (const Completed& each : completions) EXPECT_FALSE(each.broken);
    completions.clear();
  }
}

TEST_F(SessionTest, ASourceIsPulledOnlyAsTheOutputHasRoom) {
  TestClient client({.window = 1 << 24});
  client.open_window(0, 1 << 24);
  client.get("/stream/1000000/1");
  session->receive(client.take_output());
  Buffer out;
  session->produce(out);
  EXPECT_LE(out.size(), 70'000u);
  EXPECT_LE(handler.pulled, 70'000u);
}

TEST_F(SessionTest, LongAnswersShareTheConnection) {
  TestClient client({.window = 1 << 24});
  client.open_window(0, 1 << 24);
  const auto first = client.get("/shared/2000000/1");
  const auto second = client.get("/shared/2000000/2");
  session->receive(client.take_output());
  for (int i = 0; i < 10; ++i) {
    Buffer out;
    session->produce(out);
    ASSERT_TRUE(client.receive(out.view()));
  }
  EXPECT_GT(client.answers[first].body.size(), 100'000u);
  EXPECT_GT(client.answers[second].body.size(), 100'000u);
}

TEST_F(SessionTest, AStreamWhoseWindowStaysShutIsReset) {
  options.write_timeout = 1s;
  TestClient client({.opens_windows = false, .window = 1'000});
  const auto stalled = client.get("/stream/100000/1");
  const auto waiting = client.get("/blocks/1/1");  // the server is slow here, not the client
  const auto done = client.get("/own/500/1");
  talk(client);
  EXPECT_TRUE(client.answers[done].closed);
  EXPECT_EQ(session->expire(reactor.now()) - reactor.now() <= 1s, true);
  (void)session->expire(reactor.now() + 900ms);
  talk(client);
  EXPECT_FALSE(client.answers[stalled].closed);
  (void)session->expire(reactor.now() + 2s);
  talk(client);
  EXPECT_EQ(client.answers[stalled].error, cancel);
  EXPECT_FALSE(client.answers[waiting].closed);
  EXPECT_EQ(handler.sources, 1);
}

// Opening the window by a few bytes does not keep a response alive, unless it reaches the rate of slowest_client.
TEST_F(SessionTest, AWindowThatOpensByAByteAtATimeDoesNotCount) {
  options.write_timeout = 2s;
  options.slowest_client = 240;
  for (const bool of_connection : {false, true}) {
    make();
    TestClient client({.opens_windows = false, .window = of_connection ? 1u << 20 : 1000u});
    const auto dripping = client.get("/stream/300000/1");
    const auto fed = client.get("/own/300000/2");
    talk(client);
    const Instant begin = reactor.now();
    while (!client.answers[dripping].closed && reactor.now() < begin + 10s) {
      for (const Instant until = reactor.now() + 500ms; reactor.now() < until;) reactor.turn(until);
      client.open_window(of_connection ? 0 : dripping, 1);
      if (!of_connection) client.open_window(fed, 400);
      talk(client);
      (void)session->expire(reactor.now());
      talk(client);
    }
    EXPECT_GE(reactor.now() - begin, 2s);
    EXPECT_LT(reactor.now() - begin, 4s);
    EXPECT_EQ(client.answers[dripping].error, cancel);
    if (!of_connection) EXPECT_FALSE(client.answers[fed].closed);
  }
}

TEST_F(SessionTest, StreamsOfAConnectionWhoseWindowStaysShutAreReset) {
  options.write_timeout = 1s;
  TestClient client({.opens_windows = false, .window = 1 << 20});
  const auto one = client.get("/own/100000/1");
  const auto two = client.get("/file/100000/1");
  talk(client);
  EXPECT_EQ(client.answers[one].body.size() + client.answers[two].body.size(), 65'535u);
  (void)session->expire(reactor.now() + 2s);
  talk(client);
  EXPECT_EQ(client.answers[one].error, cancel);
  EXPECT_EQ(client.answers[two].error, cancel);
  EXPECT_FALSE(session->has_streams());
}

// ---- Cancelling and breaking ----

TEST_F(SessionTest, AResetDestroysTheHandlersTaskAndTheBody) {
  TestClient client({.opens_windows = false});
  const auto waiting = client.get("/never");
  const auto blocked = client.get("/blocks/10000/1");
  const auto stalled = client.get("/stream/100000/1");
  const auto reading = client.post("/echo", "abc", {}, false);
  talk(client);
  EXPECT_EQ(handler.waiting, 2);
  EXPECT_EQ(handler.sources, 2);
  for (const auto id : {waiting, blocked, stalled, reading}) client.reset(id);
  talk(client);
  EXPECT_TRUE(handler.holds_nothing());
  ASSERT_EQ(completions.size(), 4u);
  for (const Completed& each : completions) EXPECT_TRUE(each.broken && each.is_request);
  EXPECT_EQ(completions[0].status, 499);
  EXPECT_EQ(completions[1].status, 200);
}

TEST_F(SessionTest, TheEndDestroysEverything) {
  TestClient client({.opens_windows = false});
  client.get("/never");
  client.get("/blocks/10000/1");
  client.get("/stream/100000/1");
  client.post("/echo", "abc", {}, false);
  talk(client);
  session->end();
  EXPECT_TRUE(handler.holds_nothing());
  EXPECT_EQ(completions.size(), 4u);
}

// A slightly longer write would cost a second packet, and much shorter writes would cost more system calls.
TEST_F(SessionTest, LongBodiesFillTheOutputAndNoMore) {
  TestClient client({.opens_windows = false, .window = 1 << 20});
  client.open_window(0, 1 << 20);
  client.get("/file/200000/1");
  client.get("/own/200000/1");
  session->receive(client.take_output());
  std::vector<std::size_t> sizes;
  for (Buffer out; session->produce(out), !out.empty(); out.clear()) sizes.push_back(out.size());
  ASSERT_EQ(sizes.size(), 7u);
  sizes.pop_back();
  for (const std::size_t size : sizes) {
    EXPECT_LE(size, output_bytes);
    EXPECT_GT(size, output_bytes - 2 * 1024);
  }
}

// The frames of a single file are read together, whatever their sizes are and whatever frames come between them.
TEST_F(SessionTest, AFileAloneArrivesWhole) {
  for (const std::uint32_t window : {1'000u, 16'384u, 40'000u, 65'535u, 1u << 20}) {
    make();
    TestClient client({.window = window});
    client.open_window(0, 1 << 20);
    const auto id = client.get("/file/190000/7");
    talk(client);
    EXPECT_EQ(client.answers[id].body, pattern(0, TestHandler::file_size).substr(7, 190'000)) << window;
    const auto too_long = client.get("/file/300000/1");
    talk(client);
    EXPECT_EQ(client.answers[too_long].error, internal_error);
  }
}

TEST_F(SessionTest, ABodyThatBreaksIsReset) {
  TestClient client;
  const auto broken = client.get("/breaks/10000/1");
  const auto short_file = client.get("/file/300000/1");
  talk(client);
  EXPECT_EQ(client.answers[broken].error, internal_error);
  EXPECT_FALSE(client.answers[broken].ended);
  EXPECT_GT(client.answers[broken].body.size(), 4'000u);
  EXPECT_EQ(client.answers[short_file].error, internal_error);
  EXPECT_TRUE(client.goaways.empty());
  for (const Completed& each : completions) EXPECT_TRUE(each.broken);
}

TEST_F(SessionTest, AnswersAreCutByWhatKeepsThemAlive) {
  TestClient client({.opens_windows = false, .window = 20'000});
  std::vector<std::int32_t> cut;
  for (const char* path : {"/kept", "/kept-spans", "/kept-stream"}) cut.push_back(client.get(path));
  const auto other = client.get("/shared/30000/1");
  talk(client);
  EXPECT_EQ(handler.kept.use_count(), 4);
  session->cut_answers_of(this);
  talk(client);
  for (const auto id : cut) EXPECT_FALSE(client.answers[id].closed);
  output_told = 0;
  session->cut_answers_of(handler.kept.get());
  EXPECT_EQ(handler.kept.use_count(), 1) << "at once, whatever the client takes";
  EXPECT_GT(output_told, 0);
  talk(client);
  for (const auto id : cut) {
    EXPECT_TRUE(client.answers[id].closed);
    EXPECT_EQ(client.answers[id].error, internal_error);
    EXPECT_FALSE(client.answers[id].ended);
    EXPECT_EQ(client.answers[id].status, 200);
  }
  ASSERT_EQ(completions.size(), 3u);
  for (const Completed& each : completions) EXPECT_TRUE(each.broken);
  client.open_window(other, 20'000);
  client.open_window(0, 100'000);
  talk(client);
  EXPECT_EQ(client.answers[other].body, pattern(1, 30'000));
  EXPECT_EQ(session->flood(), Flood::none);
}

// Not even the heads have been sent. The data that they refer to is freed with the bodies.
TEST_F(SessionTest, AnswersAreCutBeforeTheyHaveBegunToLeave) {
  TestClient client;
  std::vector<std::int32_t> cut;
  for (const char* path : {"/kept", "/kept-spans", "/kept-stream"}) cut.push_back(client.get(path));
  cut.push_back(client.get("/kept", {}, "HEAD"));
  session->receive(client.take_output());
  EXPECT_EQ(handler.kept.use_count(), 5);
  session->cut_answers_of(handler.kept.get());
  EXPECT_EQ(handler.kept.use_count(), 1);
  talk(client);
  for (const auto id : cut) {
    EXPECT_EQ(client.answers[id].status, 0);
    EXPECT_TRUE(client.answers[id].closed);
    EXPECT_EQ(client.answers[id].error, internal_error);
  }
}

// ---- Ends ----

TEST_F(SessionTest, DrainingTellsTwiceAndFinishesWhatRuns) {
  TestClient client;
  const auto id = client.get("/waits/5000/1");
  session->receive(client.take_output());
  ASSERT_TRUE(client.receive(produced()));
  session->drain();
  talk(client, 200ms);
  ASSERT_EQ(client.goaways.size(), 2u);
  EXPECT_EQ(client.goaways[0], (std::pair<std::int32_t, std::uint32_t>(0x7FFF'FFFF, 0)));
  EXPECT_EQ(client.goaways[1], (std::pair<std::int32_t, std::uint32_t>(id, 0)));
  EXPECT_EQ(client.answers[id].body, pattern(1, 5000));
  EXPECT_TRUE(session->over());
}

TEST_F(SessionTest, DrainingDoesNotWaitForAClientThatIsSilent) {
  begin_by_hand();
  (void)produced();
  session->drain();
  EXPECT_TRUE(goaway());
  EXPECT_FALSE(session->over());
  (void)session->expire(reactor.now() + 199ms);
  EXPECT_FALSE(goaway());
  (void)session->expire(reactor.now() + 200ms);
  EXPECT_EQ(goaway(), 0u);
  EXPECT_TRUE(session->over());

  make();  // with a stream
  session->receive(std::string(preface_text) + frame(settings_type, 0, 0) +
                   frame(headers_type, end_stream | end_headers, 1, header_block("/never")));
  (void)produced();
  session->drain();
  EXPECT_TRUE(goaway());
  (void)session->expire(reactor.now() + 999ms);
  EXPECT_FALSE(goaway());
  (void)session->expire(reactor.now() + 1s);
  EXPECT_EQ(goaway(), 0u);
}

TEST_F(SessionTest, AnIdleConnectionEndsAndPingsDoNotKeepIt) {
  options.idle_timeout = 1s;
  TestClient client;
  client.get("/own/5/1");
  talk(client);
  const Instant until = session->expire(reactor.now());
  EXPECT_LE(until, reactor.now() + 1s);
  nghttp2_submit_ping(client.session(), NGHTTP2_FLAG_NONE, nullptr);
  talk(client);
  EXPECT_EQ(session->expire(reactor.now()), until);
  (void)session->expire(until);
  talk(client);
  ASSERT_EQ(client.goaways.size(), 1u);
  EXPECT_EQ(client.goaways[0].second, 0u);
  EXPECT_TRUE(session->over());
}

TEST_F(SessionTest, AHeaderThatDoesNotEndIsNotWaitedFor) {
  options.header_timeout = 1s;
  begin_by_hand();
  (void)produced();
  session->receive(frame(headers_type, end_stream, 1, header_block("/own/1/1")));
  const Instant began = reactor.now();
  EXPECT_EQ(session->expire(began), began + 1s);
  EXPECT_FALSE(goaway());
  (void)session->expire(began + 1s);
  EXPECT_EQ(goaway(), calm);
}

TEST_F(SessionTest, APrefaceThatDoesNotComeIsNotWaitedFor) {
  options.header_timeout = 1s;
  session->receive(preface_text);
  EXPECT_LE(session->expire(reactor.now()), reactor.now() + 1s);
  (void)session->expire(reactor.now() + 1s);
  EXPECT_EQ(goaway(), calm);
}

// ---- Floods: each ends with GOAWAY after a limited amount of work ----

TEST_F(SessionTest, RapidReset) {
  begin_by_hand();
  std::uint32_t id = 1;
  int waves = 0;
  for (; waves < 1000 && !session->over(); ++waves) {
    std::string bytes;
    for (int i = 0; i < 10; ++i, id += 2) {
      bytes += frame(headers_type, end_stream | end_headers, id, header_block("/never")) +
               frame(reset_type, 0, id, number(cancel));
    }
    session->receive(bytes);
    if (const auto code = goaway()) {
      EXPECT_EQ(*code, calm);
      break;
    }
  }
  EXPECT_EQ(waves, FrameGuard::reset_burst / 10);
  EXPECT_EQ(handler.requests, 0) << "what is reset in the same breath never reaches the handler";
  EXPECT_EQ(session->flood(), Flood::resets);
}

TEST_F(SessionTest, TheServerSaysHowManyResetsAreAllowed) {
  options.http2_resets = 1000;
  make();
  begin_by_hand();
  std::string bytes;
  for (std::uint32_t i = 0; i < 1000; ++i) {
    bytes += frame(headers_type, end_stream | end_headers, 2 * i + 1, header_block("/never")) +
             frame(reset_type, 0, 2 * i + 1, number(cancel));
  }
  session->receive(bytes);
  EXPECT_FALSE(goaway());
  EXPECT_EQ(counters.floods, (std::array<std::uint64_t, 5>{}));
  testing::internal::CaptureStderr();
  session->receive(frame(headers_type, end_stream | end_headers, 2001, header_block("/never")) +
                   frame(reset_type, 0, 2001, number(cancel)));
  EXPECT_TRUE(testing::internal::GetCapturedStderr().ends_with(
      "sluice: client 192.0.2.1: its HTTP/2 connection is closed, because it sent too many cancelled requests\n"));
  EXPECT_EQ(goaway(), calm);
  EXPECT_EQ(counters.floods, (std::array<std::uint64_t, 5>{0, 1, 0, 0, 0}));
}

TEST_F(SessionTest, RapidResetOneByOne) {
  begin_by_hand();
  std::uint32_t id = 1;
  for (int i = 0; i < 10'000 && !session->over(); ++i, id += 2) {
    session->receive(frame(headers_type, end_stream | end_headers, id, header_block("/never")));
    session->receive(frame(reset_type, 0, id, number(cancel)));
    EXPECT_LE(handler.waiting, 1);
    if (goaway()) break;
  }
  EXPECT_EQ(handler.requests, FrameGuard::reset_burst + 1);
}

TEST_F(SessionTest, MadeYouReset) {
  for (int way = 0; way < 3; ++way) {
    make();
    begin_by_hand();
    std::uint32_t id = 1;
    int streams = 0;
    for (; streams < 10'000; ++streams, id += 2) {
      std::string bytes = frame(headers_type, end_headers, id, header_block("/never"));
      if (way == 0) bytes += frame(headers_type, end_headers, id, header_block("/x"));
      if (way == 1) bytes += frame(window_update_type, 0, id, number(0));
      if (way == 2) bytes += frame(window_update_type, 0, id, number(0x7FFF'FFFF));
      session->receive(bytes);
      const auto code = goaway();
      ASSERT_EQ(handler.waiting, 0) << "what was reset is not worked on; " << way << ' ' << streams;
      if (!code) continue;
      EXPECT_EQ(*code, way == 1 ? protocol_error : calm);
      break;
    }
    // nghttp2 treats a WINDOW_UPDATE of zero as a connection error.
    EXPECT_EQ(streams, way == 1 ? 0 : FrameGuard::reset_burst) << way;
    EXPECT_TRUE(session->over());
  }
}

TEST_F(SessionTest, ContinuationFlood) {
  begin_by_hand();
  session->receive(frame(headers_type, end_stream, 1, header_block("/own/1/1")));
  EXPECT_LT(endures(frame(continuation_type, 0, 1, ""), 100'000), 100);
  EXPECT_EQ(handler.requests, 0);
}

TEST_F(SessionTest, ContinuationFloodOfFields) {
  begin_by_hand();
  session->receive(frame(headers_type, end_stream, 1, header_block("/own/1/1")));
  std::string fields;
  while (fields.size() < 10'000) fields += std::string("\0\1x\1y", 5);
  EXPECT_LT(endures(frame(continuation_type, 0, 1, fields), 100'000), 20);
  EXPECT_EQ(handler.requests, 0);
}

TEST_F(SessionTest, HpackBomb) {
  begin_by_hand();
  (void)produced();
  // Adds one long field to the dynamic table, and then refers to it many times with one byte each.
  std::string block = header_block("/own/1/1");
  block += std::string("\x40\1x\x7f\x81\x1e", 6) + std::string(4'000, 'v');
  ASSERT_EQ(127 + 0x01 + (0x1e << 7), 3968);
  block = header_block("/own/1/1") + std::string("\x40\1x\x7f\x81\x1e", 6) + std::string(3'968, 'v');
  session->receive(frame(headers_type, end_stream | end_headers, 1, block));
  EXPECT_FALSE(goaway());
  EXPECT_EQ(handler.requests, 1);
  session->receive(
      frame(headers_type, end_stream | end_headers, 3, header_block("/own/1/1") + std::string(16'000, '\xBE')));
  EXPECT_EQ(goaway(), calm);
  EXPECT_EQ(session->flood(), Flood::header_block);
  EXPECT_EQ(handler.requests, 1);
}

TEST_F(SessionTest, HpackBombOfSmallFieldsAndOfCookies) {
  for (const char index : {'\x90', '\xA0'}) {  // accept-encoding: gzip, deflate; cookie
    make();
    begin_by_hand();
    (void)produced();
    session->receive(
        frame(headers_type, end_stream | end_headers, 1, header_block("/own/1/1") + std::string(16'000, index)));
    EXPECT_EQ(goaway(), calm);
  }
}

TEST_F(SessionTest, HpackBombInTrailers) {
  begin_by_hand();
  session->receive(frame(headers_type, end_headers, 1, header_block("/echo", '\x83')));
  (void)produced();
  session->receive(frame(headers_type, end_stream | end_headers, 1, std::string(16'000, '\x90')));
  EXPECT_EQ(goaway(), calm);
}

TEST_F(SessionTest, FloodsOfFramesWithoutWork) {
  begin_by_hand();
  EXPECT_LE(endures(frame(ping_type, 0, 0, "12345678"), 100'000), 1000);
  make();
  begin_by_hand();
  EXPECT_LE(endures(frame(settings_type, 0, 0), 100'000), 1000);
  make();
  begin_by_hand();
  EXPECT_LE(endures(frame(priority_type, 0, 3, number(5) + "x"), 100'000), 1000);
  make();
  begin_by_hand();
  EXPECT_LE(endures(frame(0xF1, 0, 0, "abc"), 100'000), 1000);
  make();
  begin_by_hand();
  EXPECT_LE(endures(frame(window_update_type, 0, 0, number(1)), 100'000), 1000);
  make();
  begin_by_hand();
  session->receive(frame(headers_type, end_headers, 1, header_block("/echo", '\x83')));
  EXPECT_LE(endures(frame(data_type, 0, 1), 100'000), 1010);
  make();
  begin_by_hand();
  session->receive(frame(headers_type, end_headers, 1, header_block("/echo", '\x83')));
  EXPECT_LE(endures(frame(data_type, 8, 1, std::string("\3\0\0\0", 4)), 100'000), 1010) << "nothing but padding";
}

TEST_F(SessionTest, PingsThatNobodyReadTheAnswersOfAreNotKeptForEver) {
  begin_by_hand();
  std::string pings;
  for (int i = 0; i < 100'000; ++i) pings += frame(ping_type, 0, 0, "12345678");
  session->receive(pings);
  EXPECT_LT(produced().size(), 100'000u);
  EXPECT_TRUE(session->over());
}

TEST_F(SessionTest, DataForAClosedStreamIsAnError) {
  begin_by_hand();
  session->receive(frame(headers_type, end_stream | end_headers, 1, header_block("/own/1/1")));
  (void)produced();
  session->receive(frame(data_type, 0, 1, "abc"));
  EXPECT_EQ(goaway(), stream_closed_error);
}

TEST_F(SessionTest, AWellBehavedClientIsNotTakenForAFlood) {
  TestClient client;
  std::map<std::int32_t, std::size_t> sizes;
  for (int round = 0; round < 200; ++round) {
    for (int i = 0; i < 30; ++i)
      sizes[client.get("/own/" + std::to_string(100 + i) + "/1")] = static_cast<std::size_t>(100 + i);
    const auto large = client.get("/shared/100000/1");
    sizes[large] = 100'000;
    nghttp2_submit_ping(client.session(), NGHTTP2_FLAG_NONE, nullptr);
    if (round % 2 == 0) {
      const auto cancelled = client.get("/never");
      talk(client, 0ms);
      client.reset(cancelled);
    }
    talk(client, 0ms);
  }
  for (const auto& [id, size] : sizes) ASSERT_EQ(client.answers[id].body.size(), size) << id;
  EXPECT_TRUE(client.goaways.empty());
}

TEST_F(SessionTest, RefusingAllAnswersNothing) {
  session->refuse_all();
  session->receive(std::string(preface_text) + frame(settings_type, 0, 0) +
                   frame(headers_type, end_stream | end_headers, 1, header_block("/own/1/1")));
  std::optional<TestFrame> last;
  for (const TestFrame& frame : frames_of(produced())) last = frame;
  ASSERT_TRUE(last);
  EXPECT_EQ(last->type, goaway_type);
  EXPECT_EQ(last->number(0), 0u);
  EXPECT_EQ(handler.requests, 0);
  EXPECT_TRUE(session->over());
}

}  // namespace
}  // namespace sluice::http::h2
