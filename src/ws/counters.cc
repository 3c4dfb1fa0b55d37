#include "ws/counters.h"

namespace sluice::ws {

Readings Counters::readings() const {
  const auto messages = [](std::uint64_t count, std::string_view direction) {
    return counter("sluice_websocket_messages_total", "Messages of WebSocket conversations.", count,
                   label("direction", direction));
  };
  const auto bytes = [](std::uint64_t count, std::string_view direction) {
    return counter("sluice_websocket_message_bytes_total", "Bytes of these messages, decompressed.", count,
                   label("direction", direction));
  };
  return {
      gauge("sluice_websockets_open", "WebSocket conversations.", open),
      counter("sluice_websockets_total", "WebSocket conversations begun.", opened),
      counter("sluice_websockets_lost_total", "WebSocket conversations ended without a close handshake.", lost),
      messages(messages_received, "received"),
      messages(messages_sent, "sent"),
      bytes(bytes_received, "received"),
      bytes(bytes_sent, "sent"),
  };
}

}  // namespace sluice::ws
