#pragma once

#include <cstdint>

#include "base/reading.h"

namespace sluice::ws {

// Totals of one core's conversations.
struct Counters {
  std::uint64_t opened = 0;
  std::uint64_t open = 0;  // gauge
  std::uint64_t lost = 0;  // ended without a close handshake
  std::uint64_t messages_received = 0;
  std::uint64_t messages_sent = 0;
  std::uint64_t bytes_received = 0;  // of messages, decompressed
  std::uint64_t bytes_sent = 0;      // of messages, before compression

  [[nodiscard]] Readings readings() const;
};

}  // namespace sluice::ws
