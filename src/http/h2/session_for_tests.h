#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "core/simulated_reactor.h"
#include "http/h2/client_for_tests.h"
#include "http/h2/session.h"

namespace sluice::http::h2 {

inline constexpr int data_type = 0, headers_type = 1, priority_type = 2, reset_type = 3, settings_type = 4,
                     ping_type = 6, goaway_type = 7, window_update_type = 8, continuation_type = 9;
inline constexpr int end_stream = 1, end_headers = 4;
inline constexpr std::uint32_t protocol_error = 1, internal_error = 2, stream_closed_error = 5, refused_stream = 7,
                               cancel = 8, calm = 11;

struct TestFrame {
  int type = 0;
  int flags = 0;
  std::uint32_t id = 0;
  std::string payload;
  [[nodiscard]] std::uint32_t number(std::size_t at) const {
    std::uint32_t value = 0;
    for (std::size_t i = at; i < at + 4; ++i) value = value << 8 | static_cast<unsigned char>(payload[i]);
    return value;
  }
};

inline std::vector<TestFrame> frames_of(std::string_view bytes) {
  std::vector<TestFrame> frames;
  while (bytes.size() >= 9) {
    const auto byte = [&](std::size_t at) { return std::uint32_t{static_cast<unsigned char>(bytes[at])}; };
    const std::size_t size = byte(0) << 16 | byte(1) << 8 | byte(2);
    frames.push_back({static_cast<int>(byte(3)), static_cast<int>(byte(4)),
                      byte(5) << 24 | byte(6) << 16 | byte(7) << 8 | byte(8), std::string(bytes.substr(9, size))});
    bytes.remove_prefix(std::min(bytes.size(), 9 + size));
  }
  return frames;
}

// A session without I/O. The test passes its bytes to and from a TestClient, or uses frames written by hand.
class SessionTest : public testing::Test, public Session::Owner, public Observer {
 public:
  struct Completed {
    int status;
    bool is_request;
    bool broken;
    std::uint64_t bytes;
  };

  void has_output() override { ++output_told; }
  void upgrade_ended() override { ++upgrades_ended; }
  void completed(const Completion& completion) override {
    completions.push_back(
        {completion.status, completion.exchange != nullptr, completion.broken, completion.body_bytes});
  }
  void make() {
    session.reset();
    bodies = std::make_unique<BodyBudget>(reactor, options.body_memory, counters.bodies);
    engine = std::make_unique<Engine>(reactor, handler, options, this, counters, *bodies);
    session = std::make_unique<Session>(*engine, *this, "192.0.2.1", false);
  }
  void TearDown() override {
    session.reset();
    EXPECT_TRUE(handler.holds_nothing());
  }
  void SetUp() override { make(); }

  std::string produced() {
    std::string all;
    for (;;) {
      Buffer out;
      session->produce(out);
      if (out.empty()) return all;
      EXPECT_LE(out.size(), 96u * 1024) << "more than was asked for";
      all += out.view();
    }
  }
  // Exchanges bytes until neither side has any to send. Advances the simulated time in between.
  void talk(TestClient& client, Duration at_most = 50ms) {
    const Instant until = reactor.now() + at_most;
    for (;;) {
      const std::string sent = client.take_output();
      session->receive(sent);
      const std::string answered = produced();
      ASSERT_TRUE(client.receive(answered)) << "the client does not understand the server";
      if (!sent.empty() || !answered.empty()) continue;
      if (reactor.now() >= until) return;
      reactor.turn(until);
    }
  }
  void begin_by_hand() { session->receive(std::string(preface_text) + frame(settings_type, 0, 0)); }
  // The error code of the GOAWAY in the server's output; nothing if absent.
  std::optional<std::uint32_t> goaway() {
    for (const TestFrame& frame : frames_of(produced())) {
      if (frame.type == goaway_type) return frame.number(4);
    }
    return std::nullopt;
  }
  // Sends the bytes repeatedly. Returns how often the server accepted them before its GOAWAY.
  int endures(const std::string& bytes, int most, std::uint32_t error = calm) {
    for (int i = 0; i < most; ++i) {
      session->receive(bytes);
      if (const auto code = goaway()) {
        EXPECT_EQ(*code, error);
        EXPECT_TRUE(session->over());
        session->receive(bytes);
        EXPECT_EQ(produced(), "") << "nothing follows the GOAWAY";
        return i;
      }
    }
    return most;
  }

  core::SimulatedReactor reactor{1};
  TestHandler handler{reactor};
  ServerOptions options;
  std::vector<Completed> completions;
  int output_told = 0;
  int upgrades_ended = 0;
  Server::Counters counters;
  std::unique_ptr<BodyBudget> bodies;
  std::unique_ptr<Engine> engine;
  std::unique_ptr<Session> session;
};

}  // namespace sluice::http::h2
