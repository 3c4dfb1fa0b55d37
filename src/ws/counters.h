#pragma once

#include <cstdint>

namespace sluice::ws {

// What one core's conversations have come to.
struct Counters {
  std::uint64_t opened = 0;
  std::uint64_t open = 0;  // gauge
  std::uint64_t lost = 0;  // ended without a close handshake
  std::uint64_t messages_received = 0;
  std::uint64_t messages_sent = 0;
  std::uint64_t bytes_received = 0;  // of messages, decompressed
  std::uint64_t bytes_sent = 0;      // likewise

  Counters& operator+=(const Counters& other) {
    opened += other.opened;
    open += other.open;
    lost += other.lost;
    messages_received += other.messages_received;
    messages_sent += other.messages_sent;
    bytes_received += other.bytes_received;
    bytes_sent += other.bytes_sent;
    return *this;
  }
};

}  // namespace sluice::ws
