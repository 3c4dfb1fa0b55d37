#pragma once

#include <expected>
#include <optional>
#include <string_view>
#include <vector>

#include "app/prepare/kind.h"
#include "app/routes/room/options.h"
#include "base/declare.h"

namespace sluice::app {

// The kind of route [[room]], and its tables.
struct RoomTables {
  static constexpr std::string_view name = "[[room]]";
  static constexpr Nouns nouns = {"room", "rooms"};
  std::vector<RoomOptions> room_tables;

  template <class Visitor>
  static void declare(Visitor& v) {
    v.field("room", &RoomTables::room_tables,
            "Rooms: the rows that are committed to a table, for clients over WebSockets and Server-Sent Events.");
  }
  // Makes the endpoint of each room.
  static void complete(Options& options);
  static void check(config::Checks& checks);
  static std::vector<Shape> shapes(const RoomOptions& options);
  static std::expected<void, Away> prepare(Preparation& preparation);
};

// The kind of route [rooms], and its table.
struct RealtimeTable {
  static constexpr std::string_view name = "[rooms]";
  static constexpr Nouns nouns = {"path for many rooms", "paths for many rooms"};
  std::optional<RoomsOptions> rooms;

  template <class Visitor>
  static void declare(Visitor& v) {
    v.field("rooms", &RealtimeTable::rooms, "A path where one WebSocket may subscribe to several rooms.");
  }
  static void check(config::Checks& checks);
  static std::vector<Shape> shapes(const RoomsOptions& options);
  static std::expected<void, Away> prepare(Preparation& preparation);
};

}  // namespace sluice::app
