#include "base/log.h"

#include <string>

#include <gtest/gtest.h>

namespace sluice {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// The lines that `run` logs, without the time at the beginning of each line.
template <class Run>
std::string logged(Run run) {
  testing::internal::CaptureStderr();
  run();
  std::string text = testing::internal::GetCapturedStderr();
  for (std::size_t at = 0; at < text.size(); at = text.find('\n', at) + 1) text.erase(at, 21);
  return text;
}

TEST(TroubleLog, TellsTheBeginningAndTheEnd) {
  TroubleLog trouble("database main");
  const TroubleLog::Clock::time_point start{};
  EXPECT_EQ(logged([&] { trouble.got_through(); }), "");
  EXPECT_EQ(logged([&] {
              for (int i = 0; i < 1000; ++i) trouble.met("refused", start + milliseconds(i));
            }),
            "sluice: database main: refused; further failures are logged when it recovers\n");
  EXPECT_EQ(logged([&] { trouble.met("something else", start + seconds(60)); }), "");
  // A single success between two failures does not end the failure.
  EXPECT_EQ(logged([&] { trouble.end(start + seconds(60) + milliseconds(999)); }), "");
  EXPECT_EQ(logged([&] { trouble.end(start + seconds(61)); }),
            "sluice: database main: answers again; 1001 requests failed within 60000 ms\n");
  EXPECT_EQ(logged([&] { trouble.end(start + seconds(70)); }), "");
  EXPECT_EQ(logged([&] { trouble.met("again", start + seconds(80)); }),
            "sluice: database main: again; further failures are logged when it recovers\n");
  EXPECT_EQ(logged([&] { trouble.end(start + seconds(90)); }),
            "sluice: database main: answers again; 1 requests failed within 0 ms\n");
}

TEST(TroubleLog, CountsRequestsAndNotTheirAttempts) {
  TroubleLog trouble("upstream films");
  const TroubleLog::Clock::time_point start{};
  EXPECT_EQ(logged([&] {
              for (int i = 0; i < 9; ++i) trouble.attempt_failed("refused", start + milliseconds(i));
              trouble.request_failed();
              trouble.attempt_failed("refused", start + seconds(2));
            }),
            "sluice: upstream films: refused; further failures are logged when it recovers\n");
  EXPECT_EQ(logged([&] { trouble.end(start + seconds(3)); }),
            "sluice: upstream films: answers again; 1 requests failed within 2000 ms\n");
}

TEST(LogError, OneEventIsOneLine) {
  EXPECT_EQ(logged([] { log_error("a\nb\rc"); }), "sluice: a b c\n");
}

}  // namespace
}  // namespace sluice
