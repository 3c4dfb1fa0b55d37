#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/endpoint.h"
#include "api/require.h"
#include "api/write_endpoint.h"
#include "app/components/component.h"
#include "app/components/database/database.h"
#include "app/components/policies.h"
#include "app/components/policy/policy.h"
#include "app/components/websocket/websocket.h"
#include "app/routes/room/options.h"
#include "rooms/door.h"
#include "rooms/feed.h"
#include "rooms/hall.h"
#include "rooms/sql_source.h"
#include "rooms/tables.h"

namespace sluice::app {

// Hears of the commits to one database, for all of its rooms.
class RoomFeedComponent final : public ComponentOf<RoomFeedComponent, rooms::Feed> {
 public:
  // `boot`: distinguishes this process from others.
  RoomFeedComponent(std::shared_ptr<DatabaseComponent> of, std::string boot)
      : database(std::move(of)), boot_(std::move(boot)) {}

  [[nodiscard]] bool is_same(const RoomFeedComponent& other) const { return database == other.database; }
  const std::shared_ptr<DatabaseComponent> database;

 private:
  std::shared_ptr<rooms::Feed> make(const core::Here& here, const Parts& parts) const override;
  void retire(rooms::Feed& feed) const override { feed.stop(); }
  void end(rooms::Feed& feed) const override { feed.stop(); }
  Readings readings_of(rooms::Feed& feed) const override { return feed.readings(); }
  core::Task<runtime::Readiness> readiness_of(rooms::Feed& feed, Instant deadline) const override;

  const std::string boot_;
};

// [[room]]. Clients stay if it, its statements and its policies are unchanged.
class RoomComponent final : public ComponentOf<RoomComponent, rooms::Door> {
 public:
  // A query of `require`, asked for many clients at once.
  struct Question {
    sql::Statement statement;          // of :asked, a list of clients; returns the numbers of those for whom it holds
    std::vector<api::Source> sources;  // of each client's values
  };
  struct Prepared {
    RoomOptions options;
    http::Pattern pattern;
    std::vector<rooms::ValueForm> forms;
    rooms::Published published;
    std::vector<std::string> members;  // tables that `require` reads
    std::shared_ptr<const rooms::History> history;
    std::shared_ptr<const api::EndpointPlan> get;
    std::shared_ptr<const api::WritePlan> publish;  // null: clients cannot publish
    std::vector<Question> questions;                // by index of the guards' queries
    Policies policies;
  };
  struct Needs {
    std::shared_ptr<DatabaseComponent> database;
    std::shared_ptr<RoomFeedComponent> feed;
    std::shared_ptr<const WebSocketChannelsComponent> channels;
  };
  RoomComponent(std::shared_ptr<const Prepared> of, Needs with, unsigned cores)
      : prepared(std::move(of)), needs(std::move(with)), shards_(cores) {}

  [[nodiscard]] bool is_same(const RoomComponent& other) const;
  const std::shared_ptr<const Prepared> prepared;
  const Needs needs;

 private:
  std::shared_ptr<rooms::Door> make(const core::Here& here, const Parts& parts) const override;
  void serve(rooms::Door& door, const Parts& parts) const override;
  void retire(rooms::Door& door) const override { door.end(); }
  void drain(rooms::Door& door) const override { door.drain(); }
  void end(rooms::Door& door) const override { door.rooms().stop(); }
  Readings readings_of(rooms::Door& door) const override;

  const rooms::Rooms::Shards shards_;
};

// [rooms].
class RealtimeComponent final : public ComponentOf<RealtimeComponent, rooms::Hall> {
 public:
  RealtimeComponent(RoomsOptions of, Policies used, std::shared_ptr<const WebSocketChannelsComponent> on)
      : options(std::move(of)), policies_(std::move(used)), channels_(std::move(on)) {}

  [[nodiscard]] bool is_same(const RealtimeComponent& other) const;
  const RoomsOptions options;

 private:
  std::shared_ptr<rooms::Hall> make(const core::Here& here, const Parts& parts) const override;
  void serve(rooms::Hall& hall, const Parts& parts) const override;
  void retire(rooms::Hall& hall) const override { hall.end(); }
  Readings readings_of(rooms::Hall& hall) const override;

  const Policies policies_;
  const std::shared_ptr<const WebSocketChannelsComponent> channels_;
};

}  // namespace sluice::app
