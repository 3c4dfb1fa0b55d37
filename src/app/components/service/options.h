#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/declare.h"
#include "gateway/limits/options.h"
#include "msg/frame.h"
#include "msg/sessions.h"

namespace sluice::msg {

inline NameOf<SlowReceiver> names_of(SlowReceiver) {
  return {{"close", SlowReceiver::close}, {"mark_gaps", SlowReceiver::mark_gaps}};
}

}  // namespace sluice::msg

namespace sluice::app {

// [service.NAME]: the limits for the sessions of a service.
struct ServiceOptions {
  ByteSize most_body = 1_MiB;
  ByteSize most_queued = 1_MiB;
  msg::SlowReceiver slow_receiver = msg::SlowReceiver::close;
  Duration heartbeat = 30s;
  Located<Duration> idle_timeout = {75s};
  std::uint32_t sessions = 16384;
  std::uint32_t sessions_per_address = 0;
  ByteSize memory = 256_MiB;
  std::string rate;  // empty: no limit
  std::optional<std::uint32_t> burst;

  [[nodiscard]] msg::SessionOptions session_options() const;

  template <class Visitor>
  static void declare(Visitor& v) {
    using Self = ServiceOptions;
    v.field("most_body", &Self::most_body,
            "The longest body of a frame. A longer one is answered with the error 4, and the session ends.",
            {.min = 1_B, .max = 16_MiB});
    v.field("most_queued", &Self::most_queued, "The bytes that may wait for one client.", {.min = 1_KiB, .max = 1_GiB});
    v.field("slow_receiver", &Self::slow_receiver,
            "The consequence for a client that reads so slowly that more would wait for it. `close`: its session ends. "
            "`mark_gaps`: frames are dropped until it has read the others; then a frame says how many.");
    v.field("heartbeat", &Self::heartbeat, "A client over TCP that is silent for this long gets a ping.",
            {.min = 10ms, .max = 24h});
    v.field("idle_timeout", &Self::idle_timeout,
            "A client over TCP that is silent for this long is disconnected. WebSockets have `ping_interval`.",
            {.min = 10ms, .max = 24h});
    v.field("sessions", &Self::sessions, "The most sessions on one core. Beyond them, new clients are refused.",
            {.min = 1, .max = 10'000'000});
    v.field("sessions_per_address", &Self::sessions_per_address,
            "The most sessions of one client address on one core. `0`: no limit.", {.max = 10'000'000});
    v.field("memory", &Self::memory,
            "The bytes that the sessions of one core hold together: frames that wait for one client, and frames that "
            "have not arrived whole. Beyond it, a session that holds more than an equal share ends.",
            {.min = 1_MiB, .max = 1024_GiB});
    v.field("rate", &Self::rate,
            "The number of messages that one session may send in the long run, such as `\"20/s\"`. Beyond it, the "
            "message is answered with the error 5, and the session ends: a WebSocket with the close code 4429. Without "
            "it, there is no limit.",
            {.check = gateway::limits::RateLimitOptions::check_rate});
    v.field("burst", &Self::burst,
            "The messages that may come at once after a pause. Without it, the number in `rate`.",
            {.min = 1, .max = 1'000'000});
  }
};

}  // namespace sluice::app
