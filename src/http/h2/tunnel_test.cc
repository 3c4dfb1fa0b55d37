#include "http/h2/tunnel.h"

#include "http/h2/session_for_tests.h"

namespace sluice::http::h2 {
namespace {

using Heard = std::vector<std::string>;

class TunnelTest : public SessionTest {
 public:
  // A header block with CONNECT for "websocket" to a path of fewer than 127 bytes, without the dynamic table.
  static std::string connect_block(std::string_view path) {
    std::string block(
        "\x02\x07"
        "CONNECT"
        "\x86\x01\x04"
        "test"
        "\x04");
    block += static_cast<char>(path.size());
    block += path;
    return block + std::string("\0\x09:protocol\x09websocket", 21);
  }
};

TEST_F(TunnelTest, TheServerSaysThatItTakesProtocols) {
  bool said = false;
  for (const TestFrame& frame : frames_of(produced())) {
    for (std::size_t at = 0; frame.type == settings_type && at + 6 <= frame.payload.size(); at += 6) {
      said |= frame.payload.substr(at, 6) == std::string("\0\x08\0\0\0\x01", 6);
    }
  }
  EXPECT_TRUE(said);
}

TEST_F(TunnelTest, BytesGoBothWays) {
  TestClient client;
  const auto id = client.open("/echo");
  talk(client);
  EXPECT_EQ(client.answers[id].status, 200);
  EXPECT_EQ(client.answers[id].fields.at("x-upgrade"), "websocket");
  EXPECT_EQ(client.answers[id].fields.at("x-body"), "no");
  EXPECT_FALSE(client.answers[id].fields.contains("content-length"));
  ASSERT_EQ(completions.size(), 1u) << "the answer is the request's end";
  EXPECT_EQ(completions[0].status, 200);
  EXPECT_TRUE(completions[0].is_request && !completions[0].broken);
  EXPECT_EQ(counters.active[0][static_cast<std::size_t>(Method::connect)], 0u);

  std::string said;
  for (const std::size_t size : {1, 2, 1000, 9'999, 10'000, 10'001, 100'000}) {
    said += pattern(size, size);
    client.say(id, pattern(size, size));
    talk(client);
    ASSERT_EQ(client.answers[id].body, said);
    EXPECT_FALSE(client.answers[id].ended);
  }
  client.end_side(id);
  talk(client);
  EXPECT_EQ(handler.heard, Heard{"end"});
  EXPECT_TRUE(client.answers[id].ended && client.answers[id].closed);
  EXPECT_EQ(client.answers[id].error, 0u);
  EXPECT_EQ(handler.upgrades, 0);
  EXPECT_FALSE(session->has_streams() || session->has_upgrades());
  EXPECT_EQ(upgrades_ended, 1);
  EXPECT_EQ(completions.size(), 1u);
}

TEST_F(TunnelTest, TheConversationDoesNotDependOnHowTheBytesCome) {
  const std::string bytes = std::string(preface_text) + frame(settings_type, 0, 0) +
                            frame(headers_type, end_headers, 1, connect_block("/echo")) +
                            frame(data_type, 0, 1, "abc") + frame(data_type, 8, 1, std::string("\2def\0\0", 6)) +
                            frame(data_type, 0, 1) + frame(data_type, end_stream, 1, "ghi");
  const auto converse = [&](std::size_t split) {
    make();
    handler.heard.clear();
    std::string out;
    for (std::string_view left = bytes; !left.empty();) {
      const std::size_t size = split == 0 ? 1 : std::min(left.size(), left.size() == bytes.size() ? split : SIZE_MAX);
      session->receive(left.substr(0, size));
      left.remove_prefix(size);
      out += produced();
    }
    std::string said;
    bool ended = false;
    for (const TestFrame& frame : frames_of(out)) {
      if (frame.type == data_type) said += frame.payload;
      ended |= frame.type == data_type && (frame.flags & end_stream) != 0;
    }
    EXPECT_TRUE(ended);
    EXPECT_EQ(handler.heard, Heard{"end"});
    return said;
  };
  for (std::size_t split = 0; split <= bytes.size(); ++split) ASSERT_EQ(converse(split), "abcdefghi") << split;
}

TEST_F(TunnelTest, AnUpgradeMayTakeItsTime) {
  TestClient client;
  const auto id = client.open("/later");
  client.say(id, "early");
  talk(client);
  EXPECT_EQ(client.answers[id].status, 200);
  EXPECT_EQ(client.answers[id].body, "early");
  EXPECT_EQ(completions.size(), 1u);
  EXPECT_EQ(counters.active[0][static_cast<std::size_t>(Method::connect)], 0u);
}

TEST_F(TunnelTest, WhatIsAnsweredOtherwiseIsARequestLikeOthers) {
  TestClient client;
  const auto id = client.open("/own/5/1");
  const auto long_one = client.open("/own/5/1");
  client.say(id, "nobody hears this");
  client.end_side(id);
  client.say(long_one, pattern(1, 300'000));
  talk(client);
  EXPECT_EQ(client.answers[id].body, pattern(1, 5));
  EXPECT_TRUE(client.answers[id].closed && client.answers[long_one].ended);
  EXPECT_FALSE(client.answers[long_one].closed);
  (void)session->expire(reactor.now() + 3s);
  talk(client);
  EXPECT_TRUE(client.answers[long_one].closed);
  EXPECT_EQ(completions.size(), 2u);
  EXPECT_EQ(handler.upgrades, 0);
}

// ---- Flow control ----

TEST_F(TunnelTest, TheWindowOpensAsTheUpgradeReads) {
  options.body_limit = 1000;  // must not apply to upgrades
  TestClient client;
  const auto deaf = client.open("/deaf");
  client.say(deaf, pattern(1, 1'000'000));
  talk(client);
  const int updates = client.window_updates;
  talk(client);
  EXPECT_EQ(client.window_updates, updates);
  EXPECT_LE(nghttp2_session_get_stream_remote_window_size(client.session(), deaf), 0);
  EXPECT_GT(nghttp2_session_get_remote_window_size(client.session()), 0) << "others are not held up";

  const std::string body = pattern(2, 3'000'000);
  const auto echo = client.open("/echo");
  client.say(echo, body);
  talk(client);
  EXPECT_EQ(client.answers[echo].body, body);
  // When "deaf" ends, the connection's window gets back the unread bytes.
  for (int i = 0; i < 10; ++i) {
    const auto id = client.open("/deaf");
    client.say(id, pattern(1, 300'000));
    talk(client, 0ms);
    client.reset(id);
    talk(client, 0ms);
  }
  client.say(echo, body);
  talk(client);
  EXPECT_EQ(client.answers[echo].body.size(), 2 * body.size());
}

TEST_F(TunnelTest, AWriteWaitsForTheClientsWindow) {
  TestClient client({.opens_windows = false, .window = 1000});
  const auto id = client.open("/greet/5000/3");
  talk(client, 1900ms);  // the client may read nothing for two seconds
  EXPECT_EQ(client.answers[id].body, pattern(3, 5000).substr(0, 1000));
  EXPECT_TRUE(handler.heard.empty());
  client.open_window(id, 1000);
  talk(client, 1900ms);
  EXPECT_EQ(client.answers[id].body.size(), 2000u);
  EXPECT_TRUE(handler.heard.empty());
  client.open_window(id, 3001);  // nghttp2 does not send even an empty frame while the window is closed
  talk(client);
  EXPECT_EQ(client.answers[id].body, pattern(3, 5000));
  EXPECT_EQ(handler.heard, Heard{"write done"});
  EXPECT_TRUE(client.answers[id].ended);
}

TEST_F(TunnelTest, AClientThatTakesNothingIsCutByAReset) {
  TestClient client({.opens_windows = false, .window = 1000});
  const auto id = client.open("/greet/5000/3");
  talk(client, 2100ms);
  EXPECT_EQ(handler.heard, Heard{"write timed out"});
  EXPECT_EQ(client.answers[id].body.size(), 1000u);
  EXPECT_TRUE(client.answers[id].closed && !client.answers[id].ended);
  EXPECT_EQ(client.answers[id].error, cancel);
  EXPECT_EQ(handler.upgrades, 0);
}

TEST_F(TunnelTest, AWindowThatStaysShutAtTheEndEndsTheStreamInTime) {
  TestClient client({.opens_windows = false, .window = 1000});
  const auto id = client.open("/greet/1000/3");
  talk(client);
  EXPECT_EQ(handler.heard, Heard{"write done"});
  EXPECT_EQ(handler.upgrades, 0);
  EXPECT_EQ(client.answers[id].body.size(), 1000u);
  EXPECT_FALSE(client.answers[id].ended);
  EXPECT_TRUE(session->is_busy());
  EXPECT_LE(session->expire(reactor.now()), reactor.now() + options.write_timeout);
  (void)session->expire(reactor.now() + options.write_timeout);
  talk(client);
  EXPECT_TRUE(client.answers[id].closed);
  EXPECT_EQ(client.answers[id].error, cancel);
}

TEST_F(TunnelTest, WritersShareTheConnection) {
  TestClient client;
  const auto one = client.open("/greet/2000000/1");
  const auto two = client.open("/greet/2000000/2");
  const auto between = client.get("/stream/2000000/3");
  // Until the first has sent everything.
  for (int i = 0; i < 10'000 && !client.answers[one].ended; ++i) {
    session->receive(client.take_output());
    Buffer out;
    session->produce(out);
    ASSERT_TRUE(client.receive(out.view()));
  }
  EXPECT_GT(client.answers[two].body.size(), 1'000'000u);
  EXPECT_GT(client.answers[between].body.size(), 1'000'000u);
  talk(client);
  EXPECT_EQ(client.answers[two].body, pattern(2, 2'000'000));
  EXPECT_EQ(client.answers[between].body, pattern(3, 2'000'000));
}

// ---- Ends ----

TEST_F(TunnelTest, AResetIsALostConnection) {
  TestClient client;
  const auto silent = client.open("/echo");
  const auto deaf = client.open("/deaf");
  talk(client);
  client.reset(silent);
  talk(client);
  EXPECT_EQ(handler.heard, Heard{"closed"});
  EXPECT_EQ(handler.upgrades, 1);
  client.say(deaf, "unread");
  talk(client);
  client.reset(deaf, NGHTTP2_NO_ERROR);
  talk(client);
  EXPECT_EQ(handler.heard.back(), "readable done");
  EXPECT_EQ(handler.upgrades, 0);
  EXPECT_EQ(completions.size(), 2u);
  EXPECT_TRUE(client.goaways.empty());
}

TEST_F(TunnelTest, AResetEndsAWrite) {
  TestClient client({.opens_windows = false, .window = 1000});
  const auto id = client.open("/greet/5000/3");
  const auto echo = client.open("/echo");
  client.say(echo, pattern(1, 3000));
  talk(client);
  client.reset(id);
  client.reset(echo);
  talk(client);
  EXPECT_EQ(handler.heard, (Heard{"write closed", "write closed"}));
  EXPECT_EQ(handler.upgrades, 0);
}

TEST_F(TunnelTest, WhatIsResetAtOnceIsNeverHeardOf) {
  begin_by_hand();
  session->receive(frame(headers_type, end_headers, 1, connect_block("/echo")) + frame(data_type, 0, 1, "abc") +
                   frame(reset_type, 0, 1, number(cancel)));
  EXPECT_EQ(handler.requests, 0);
  // The same for a stream that is reset before its response is sent.
  session->receive(frame(headers_type, end_headers, 3, connect_block("/echo")));
  session->receive(frame(reset_type, 0, 3, number(cancel)));
  (void)produced();
  reactor.turn(reactor.now());
  EXPECT_EQ(handler.heard, Heard{"closed"});
  EXPECT_EQ(handler.upgrades, 0);
}

TEST_F(TunnelTest, ResettingThemDoesNotGetRoundTheLimit) {
  options.http2_streams = 5;
  TestClient client;
  for (int i = 0; i < 5; ++i) {
    const auto id = client.open("/lasts");
    talk(client, 0ms);
    client.reset(id);
    talk(client, 0ms);
  }
  EXPECT_FALSE(session->has_streams());
  EXPECT_EQ(handler.upgrades, 5);
  const auto refused = client.open("/echo");
  const auto another = client.get("/own/1/1");
  talk(client, 0ms);
  EXPECT_EQ(client.answers[refused].status, 503);
  EXPECT_EQ(client.answers[another].status, 200);
  talk(client, 1100ms);
  EXPECT_EQ(handler.upgrades, 0);
  const auto id = client.open("/echo");
  talk(client);
  EXPECT_EQ(client.answers[id].status, 200);
}

TEST_F(TunnelTest, TheConnectionsEndIsHeardOf) {
  TestClient client;
  const auto echo = client.open("/echo");
  client.open("/lasts");
  client.say(echo, "abc");
  talk(client);
  session->end();
  EXPECT_TRUE(session->has_upgrades());
  reactor.turn(reactor.now());
  EXPECT_EQ(handler.heard, (Heard{"closed", "closed"}));
  EXPECT_TRUE(session->has_upgrades());
  const Instant before = reactor.now();
  while (session->has_upgrades() && reactor.now() < before + 5s) reactor.turn(before + 5s);
  EXPECT_FALSE(session->has_upgrades());
  EXPECT_EQ(upgrades_ended, 2);
}

TEST_F(TunnelTest, WhatWaitsGoesWithItsSession) {
  TestClient client({.opens_windows = false, .window = 1000});
  for (const char* path : {"/echo", "/deaf", "/greet/5000/1", "/lasts"}) client.open(path);
  talk(client);
  EXPECT_EQ(handler.upgrades, 4);
  session.reset();
  EXPECT_TRUE(handler.holds_nothing());
  EXPECT_TRUE(handler.heard.empty());
}

TEST_F(TunnelTest, OnlyDataMayFollow) {
  TestClient client({.enforces = false});
  const auto id = client.open("/echo");
  talk(client);
  session->receive(
      frame(headers_type, end_stream | end_headers, static_cast<std::uint32_t>(id), std::string("\0\1x\1y", 5)));
  talk(client);
  EXPECT_TRUE(client.answers[id].closed);
  EXPECT_EQ(client.answers[id].error, protocol_error);
  EXPECT_EQ(handler.heard, Heard{"closed"});
}

TEST_F(TunnelTest, AnUpgradeThatIsDoneWaitsForTheClientALittle) {
  TestClient client;
  const auto quiet = client.open("/greet/10/1");
  const auto loud = client.open("/greet/10/1");
  client.say(loud, pattern(1, 1'000'000));
  talk(client);
  for (const auto id : {quiet, loud}) {
    EXPECT_EQ(client.answers[id].body, pattern(1, 10));
    EXPECT_TRUE(client.answers[id].ended && !client.answers[id].closed);
  }
  EXPECT_TRUE(session->is_busy());
  EXPECT_LT(session->expire(reactor.now()), reactor.now() + 2s);
  (void)session->expire(reactor.now() + 3s);
  talk(client);
  for (const auto id : {quiet, loud}) {
    EXPECT_TRUE(client.answers[id].closed);
    EXPECT_EQ(client.answers[id].error, 0u);
  }
}

TEST_F(TunnelTest, ASideThatHasEndedIsStillHeard) {
  TestClient client;
  const auto id = client.open("/ends");
  talk(client);
  EXPECT_EQ(client.answers[id].body, "last words");
  EXPECT_TRUE(client.answers[id].ended);
  EXPECT_FALSE(client.answers[id].closed);
  (void)session->expire(reactor.now() + 1h);
  talk(client);
  handler.heard.clear();
  client.say(id, "still there");
  talk(client);
  EXPECT_EQ(handler.heard, (Heard{"readable done", "still there"}));
  client.say(id, "last");
  client.end_side(id);
  talk(client);
  EXPECT_EQ(handler.heard, (Heard{"readable done", "still there", "readable done", "last", "end"}));
  EXPECT_TRUE(client.answers[id].closed);
  EXPECT_EQ(client.answers[id].error, 0u);
  EXPECT_FALSE(session->has_streams() || session->has_upgrades());
}

TEST_F(TunnelTest, WhoDoesNotReadToTheEndResets) {
  for (const char* const path : {"/leaves", "/cuts"}) {
    TestClient client;
    make();
    const auto id = client.open(path);
    talk(client, 2s);
    EXPECT_TRUE(client.answers[id].closed) << path;
    EXPECT_EQ(client.answers[id].error, cancel) << path;
    EXPECT_FALSE(session->has_streams() || session->has_upgrades()) << path;
  }
}

TEST_F(TunnelTest, AQuietConversationIsLeftAlone) {
  TestClient client;
  const auto id = client.open("/echo");
  client.say(id, "abc");
  talk(client);
  EXPECT_FALSE(session->is_busy());
  for (const Duration later : {1s, 100s, 10'000s}) (void)session->expire(reactor.now() + later);
  client.say(id, "def");
  talk(client);
  EXPECT_EQ(client.answers[id].body, "abcdef");
  EXPECT_TRUE(client.goaways.empty());
  const auto waits = client.get("/later/1/1");
  talk(client, 0ms);
  EXPECT_TRUE(session->is_busy());
  talk(client);
  EXPECT_EQ(client.answers[waits].status, 200);
  EXPECT_FALSE(session->is_busy());
}

TEST_F(TunnelTest, DrainingSaysGoodbyeFirst) {
  TestClient client;
  const auto echo = client.open("/echo");
  const auto lasts = client.open("/lasts");
  talk(client);
  session->drain();
  session->drain();
  talk(client);
  EXPECT_EQ(client.answers[echo].body, "bye");
  EXPECT_TRUE(client.answers[echo].ended);
  EXPECT_EQ(client.order, (Heard{"goaway", "end", "goaway"})) << "notice, the end of what is quick, the last stream";
  EXPECT_EQ(client.goaways.back().first, lasts);
  EXPECT_FALSE(session->over());
  client.end_side(echo);
  client.end_side(lasts);
  talk(client, 1500ms);
  EXPECT_TRUE(client.answers[lasts].closed);
  EXPECT_TRUE(session->over());
}

TEST_F(TunnelTest, WhatBeginsWhileDrainingHearsOfItFirst) {
  TestClient client;
  talk(client);
  session->drain();
  const auto id = client.open("/echo");
  talk(client);
  EXPECT_EQ(client.answers[id].status, 200);
  EXPECT_EQ(client.answers[id].body, "bye");
  EXPECT_EQ(handler.heard, (Heard{"drain", "write done"}));
}

}  // namespace
}  // namespace sluice::http::h2
