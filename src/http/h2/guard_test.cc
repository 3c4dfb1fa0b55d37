#include "http/h2/guard.h"

#include <string>

#include <gtest/gtest.h>

namespace sluice::http::h2 {
namespace {

constexpr std::string_view preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
constexpr int data = 0, headers = 1, priority = 2, rst_stream = 3, settings = 4, ping = 6, window_update = 8,
              continuation = 9, unknown = 0xF0;
constexpr int end_stream = 1, end_headers = 4;

std::string frame(int type, int flags, std::uint32_t id, std::string_view payload = {}) {
  std::string bytes;
  for (int shift : {16, 8, 0}) bytes += static_cast<char>(payload.size() >> shift);
  bytes += static_cast<char>(type);
  bytes += static_cast<char>(flags);
  for (int shift : {24, 16, 8, 0}) bytes += static_cast<char>(id >> shift);
  return bytes.append(payload);
}

class GuardTest : public testing::Test {
 public:
  // Returns how many bytes the guard lets through. Questions are answered with `known`.
  std::size_t inspect(std::string_view bytes) {
    std::size_t all = 0;
    while (!bytes.empty()) {
      const std::size_t size = guard.inspect(bytes, now);
      all += size;
      bytes.remove_prefix(size);
      if (guard.question() != 0) {
        ++questions;
        guard.settle(known, now);
        if (guard.violation() == 0 && guard.flood() == Flood::none) continue;
      }
      break;
    }
    return all;
  }
  bool passes(std::string_view bytes) {
    return inspect(bytes) == bytes.size() && guard.flood() == Flood::none && guard.violation() == 0;
  }
  // Returns how many copies of `bytes` the guard lets through without time passing.
  int endures(std::string_view bytes, int most) {
    for (int i = 0; i < most; ++i) {
      if (!passes(bytes)) return i;
    }
    return most;
  }

  FrameGuard guard{16 * 1024};
  Instant now{1h};
  bool known = true;
  int questions = 0;
  // SETTINGS and a request on stream 1 have been received.
  bool begun = passes(std::string(preface) + frame(settings, 0, 0) + frame(headers, end_headers, 1));
};

TEST_F(GuardTest, OwesUntilTheFirstFrameAndDuringAHeaderBlock) {
  EXPECT_TRUE(begun);
  FrameGuard fresh(16 * 1024);
  const std::string start = std::string(preface) + frame(settings, 0, 0, "abcdef");
  for (std::size_t i = 0; i < start.size(); ++i) {
    EXPECT_TRUE(fresh.owes_frames()) << i;
    EXPECT_EQ(fresh.inspect(std::string_view(start).substr(i, 1), now), 1u);
  }
  EXPECT_FALSE(fresh.owes_frames());
  const std::string open = frame(headers, 0, 3, "abc");
  EXPECT_TRUE(passes(open.substr(0, open.size() - 1)));
  EXPECT_TRUE(guard.owes_frames());
  EXPECT_TRUE(passes(open.substr(open.size() - 1)));
  EXPECT_TRUE(guard.owes_frames());
  EXPECT_TRUE(passes(frame(continuation, end_headers, 3, "abc")));
  EXPECT_FALSE(guard.owes_frames());
}

TEST_F(GuardTest, ResetsAreAllowedSoManyAndThenWithTime) {
  EXPECT_EQ(endures(frame(rst_stream, 0, 1, "abcd"), 10'000), FrameGuard::reset_burst);
  EXPECT_EQ(guard.flood(), Flood::resets);
}

TEST_F(GuardTest, ResetsOfStreamsThatHaveEndedAreFramesWithoutWork) {
  known = false;
  EXPECT_GT(endures(frame(rst_stream, 0, 1, "abcd"), 10'000), FrameGuard::reset_burst);
  EXPECT_EQ(guard.flood(), Flood::idle_frames);
}

TEST_F(GuardTest, ResetsComeBackWithTime) {
  EXPECT_EQ(endures(frame(rst_stream, 0, 1, "abcd"), FrameGuard::reset_burst), FrameGuard::reset_burst);
  now += 10 * FrameGuard::reset_interval;
  EXPECT_EQ(endures(frame(rst_stream, 0, 1, "abcd"), 100), 10);
}

TEST_F(GuardTest, ResetsThatTheServerIsMadeToSendCountAsWell) {
  EXPECT_EQ(endures(frame(rst_stream, 0, 1, "abcd"), FrameGuard::reset_burst / 2), FrameGuard::reset_burst / 2);
  for (int i = 0; i < FrameGuard::reset_burst / 2; ++i) guard.reset_by_server(now);
  EXPECT_EQ(guard.flood(), Flood::none);
  guard.reset_by_server(now);
  EXPECT_EQ(guard.flood(), Flood::resets);
}

TEST_F(GuardTest, FramesWithoutWorkAreAFlood) {
  const std::string several[] = {frame(ping, 0, 0, "12345678"), frame(settings, 0, 0),
                                 frame(priority, 0, 3, std::string("\0\0\0\0\1", 5)), frame(unknown, 0, 0)};
  for (const std::string& bytes : several) {
    FrameGuard fresh(16 * 1024);
    (void)fresh.inspect(preface, now);
    int count = 0;
    while (count < 10'000 && fresh.inspect(bytes, now) == bytes.size() && fresh.flood() == Flood::none) ++count;
    EXPECT_EQ(count, FrameGuard::idle_frame_burst) << int{bytes[3]};
    EXPECT_EQ(fresh.flood(), Flood::idle_frames);
  }
}

TEST_F(GuardTest, EmptyDataIsCountedByWhomUnderstandsPadding) {
  for (int i = 0; i < FrameGuard::idle_frame_burst; ++i) guard.got_empty_data(now);
  EXPECT_EQ(guard.flood(), Flood::none);
  guard.got_empty_data(now);
  EXPECT_EQ(guard.flood(), Flood::idle_frames);
}

TEST_F(GuardTest, RequestsPayForAFewFramesWithoutWork) {
  std::uint32_t id = 3;
  for (int i = 0; i < 5000; ++i, id += 2) {
    std::string bytes = frame(headers, end_stream | end_headers, id, "a");
    for (int n = 0; n < FrameGuard::idle_frames_per_request; ++n) bytes += frame(ping, 0, 0, "12345678");
    ASSERT_TRUE(passes(bytes)) << i;
  }
}

TEST_F(GuardTest, WindowUpdatesAreMeasuredByWhatWasSent) {
  const std::string update = frame(window_update, 0, 0, std::string("\0\0\1\0", 4));
  constexpr int free = FrameGuard::free_window_updates + FrameGuard::window_updates_per_request;
  EXPECT_EQ(endures(update, free), free);
  for (int i = 0; i < 10'000; ++i) {
    guard.sent_data_frame();
    for (std::uint64_t n = 0; n < FrameGuard::window_updates_per_data_frame; ++n) ASSERT_TRUE(passes(update));
  }
  EXPECT_FALSE(passes(update));
  EXPECT_EQ(guard.flood(), Flood::window_updates);
}

TEST_F(GuardTest, AHeaderBlockHasOnlySoManyFramesAndBytes) {
  EXPECT_TRUE(passes(frame(headers, 0, 3)));
  EXPECT_EQ(endures(frame(continuation, 0, 3), 100'000), static_cast<int>(guard.most_continuations()));
  EXPECT_EQ(guard.flood(), Flood::header_block);

  FrameGuard other(16 * 1024);
  EXPECT_EQ(other.inspect(std::string(preface) + frame(headers, 0, 1), now), preface.size() + 9);
  std::size_t bytes = 0;
  while (other.flood() == Flood::none) {
    ASSERT_LT(bytes, 200'000u);
    bytes += other.inspect(frame(continuation, 0, 1, std::string(16'384, 'x')), now);
  }
  EXPECT_EQ(other.flood(), Flood::header_block);
}

TEST_F(GuardTest, WhatIsTooMuchIsNotActedUponAndWhatWasBeforeIs) {
  const std::string before = frame(headers, end_stream | end_headers, 3, "abc");
  for (int i = 0; i < FrameGuard::reset_burst; ++i) guard.reset_by_server(now);
  EXPECT_EQ(inspect(before + frame(rst_stream, 0, 3, "abcd") + before), before.size() + 8) << "all but a last byte";
  EXPECT_EQ(guard.flood(), Flood::resets);
}

TEST_F(GuardTest, FramesForKnownStreamsPass) {
  EXPECT_TRUE(passes(frame(headers, end_headers, 3, "abc") + frame(data, 0, 3, "abc") + frame(headers, 5, 3, "abc")));
  EXPECT_EQ(questions, 2);
}

TEST_F(GuardTest, AQuestionIsAskedBeforeTheFrameIsWhole) {
  const std::string bytes = frame(data, 0, 1, "abc");
  EXPECT_EQ(guard.inspect(bytes, now), 8u);
  EXPECT_EQ(guard.question(), 1);
  guard.settle(true, now);
  EXPECT_EQ(guard.inspect(std::string_view(bytes).substr(8), now), bytes.size() - 8);
  EXPECT_EQ(guard.question(), 0);
}

TEST_F(GuardTest, FramesForClosedStreamsAreViolations) {
  EXPECT_TRUE(passes(frame(headers, 5, 5, "abc")));
  known = false;
  guard.closed(5);
  EXPECT_FALSE(passes(frame(headers, 5, 5, "abc")));
  EXPECT_EQ(guard.violation(), 5u) << "STREAM_CLOSED";
}

TEST_F(GuardTest, DataForAClosedStreamIsAViolation) {
  EXPECT_TRUE(passes(frame(headers, 5, 5, "abc")));
  known = false;
  EXPECT_FALSE(passes(frame(data, 0, 5, "abc")));
  EXPECT_EQ(guard.violation(), 5u) << "STREAM_CLOSED";
}

TEST_F(GuardTest, AStreamThatWasSkippedIsNotOpened) {
  EXPECT_TRUE(passes(frame(headers, 5, 5, "abc")));
  known = false;
  EXPECT_FALSE(passes(frame(headers, 5, 3, "abc")));
  EXPECT_EQ(guard.violation(), 1u) << "PROTOCOL_ERROR";
}

TEST_F(GuardTest, WhatWasOnItsWayWhenTheServerResetIsPassedOver) {
  EXPECT_TRUE(passes(frame(headers, end_headers, 5, "abc")));
  known = false;
  guard.ended_by_server(5);
  EXPECT_TRUE(passes(frame(data, 0, 5, "abc") + frame(headers, 5, 5, "abc")));
}

TEST_F(GuardTest, PriorityNeedsAStreamAndAnotherOne) {
  EXPECT_TRUE(passes(frame(priority, 0, 3, std::string("\0\0\0\5\1", 5))));
  const std::string self = frame(priority, 0, 3, std::string("\x80\0\0\3\1", 5));
  for (char byte : self) (void)inspect({&byte, 1});
  EXPECT_EQ(guard.violation(), 1u);

  FrameGuard other(16 * 1024);
  (void)other.inspect(std::string(preface) + frame(priority, 0, 0, std::string("\0\0\0\5\1", 5)), now);
  EXPECT_EQ(other.violation(), 1u);
}

}  // namespace
}  // namespace sluice::http::h2
