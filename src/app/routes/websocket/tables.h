#pragma once

#include <expected>
#include <string_view>
#include <vector>

#include "app/prepare/kind.h"
#include "base/declare.h"
#include "ws/options.h"

namespace sluice::app {

// The kind of route [[websocket]], and its tables.
struct WebSocketTables {
  static constexpr std::string_view name = "[[websocket]]";
  static constexpr Nouns nouns = {"websocket", "websockets"};
  std::vector<ws::WebSocketOptions> websockets;

  template <class Visitor>
  static void declare(Visitor& v) {
    v.field("websocket", &WebSocketTables::websockets, "A path where WebSocket clients connect.");
  }
  static void check(config::Checks& checks);
  static std::vector<Shape> shapes(const ws::WebSocketOptions& options);
  static std::expected<void, Away> prepare(Preparation& preparation);
};

}  // namespace sluice::app
