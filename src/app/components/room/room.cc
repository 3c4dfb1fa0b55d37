#include "app/components/room/room.h"

#include "api/endpoint.h"
#include "app/components/room/gate.h"
#include "app/config/difference.h"

namespace sluice::app {
namespace {

// CORS is for pages' requests, and not for messages of their WebSockets.
http::Binding::Filters filters_of(const std::vector<Located<std::string>>& use, const Parts& parts) {
  http::Binding::Filters filters;
  for (const auto& name : use) {
    for (const Parts::One& one : parts.all()) {
      const auto policy = std::dynamic_pointer_cast<PolicyComponent>(one.component);
      if (policy == nullptr || policy->options.options.name.value != name.value) continue;
      if (!policy->options.options.value.kind().is_first) filters.push_back(parts.find(policy.get()));
    }
  }
  return filters;
}

ws::WebSocketOptions websocket_of(const auto& options, ByteSize longest_message) {
  ws::WebSocketOptions made;
  made.max_message = longest_message;
  made.path = options.path;
  made.origins = options.origins;
  made.compression = options.compression;
  made.write_timeout = options.write_timeout;
  return made;
}

}  // namespace

std::shared_ptr<rooms::Feed> RoomFeedComponent::make(const core::Here& here, const Parts& parts) const {
  return std::make_shared<rooms::Feed>(here, database->options.name.value, database->options.value,
                                       database->shared.get(), parts.find(database.get()), boot_);
}

core::Task<runtime::Readiness> RoomFeedComponent::readiness_of(rooms::Feed& feed, Instant) const {
  if (!feed.is_used() || feed.is_heard()) co_return runtime::Readiness{};
  co_return runtime::Readiness{true, "The rooms of the database \"" + database->options.name.value +
                                         "\" are not notified of commits; they poll every second."};
}

bool RoomComponent::is_same(const RoomComponent& other) const {
  const auto publish_id = [](const Prepared& one) {
    return one.publish ? one.publish->main.statement.id : sql::StatementId{};
  };
  const Prepared& mine = *prepared;
  const Prepared& its = *other.prepared;
  return config::same(mine.options, its.options) && config::same(mine.policies, its.policies) &&
         needs.database == other.needs.database && needs.feed == other.needs.feed &&
         needs.channels == other.needs.channels && mine.published == its.published && mine.forms == its.forms &&
         mine.members == its.members && mine.get->statement.id == its.get->statement.id &&
         publish_id(mine) == publish_id(its);
}

std::shared_ptr<rooms::Door> RoomComponent::make(const core::Here& here, const Parts& parts) const {
  const RoomOptions& options = prepared->options;
  const std::shared_ptr<sql::Database> database = parts.find(needs.database.get());
  const auto channels = parts.find(needs.channels.get());
  rooms::Door::Parts own;
  own.rooms = std::make_shared<rooms::Rooms>(
      here, shards_, std::make_unique<rooms::SqlSource>(prepared->history, database, here.reactor),
      rooms::Limits{.keep = {.count = options.history.keep, .bytes = options.history.keep_bytes.bytes},
                    .rooms = options.rooms},
      options.path.value);
  own.gate = std::make_unique<RoomGate>(prepared, database, here.reactor, needs.database->trouble);
  own.history = std::make_unique<api::Endpoint>(prepared->get, *database, here.reactor, &needs.database->trouble);
  if (prepared->publish) {
    own.publish = std::make_unique<api::WriteEndpoint>(prepared->publish, *database, here.reactor,
                                                       &needs.database->write_trouble);
  }
  auto door =
      std::make_shared<rooms::Door>(here,
                                    rooms::DoorOptions{.pattern = prepared->pattern,
                                                       .host = options.host.value,
                                                       .forms = prepared->forms,
                                                       .clients = options.clients,
                                                       .heartbeat = options.heartbeat,
                                                       .retry = options.retry,
                                                       .websocket = websocket_of(options, options.longest_message())},
                                    std::move(own), channels->pool);
  door->keep(database);
  door->keep(channels);
  door->keep(prepared);
  return door;
}

void RoomComponent::serve(rooms::Door& door, const Parts& parts) const {
  const auto feed = parts.find(needs.feed.get());
  feed->add(shards_, prepared->published, prepared->members);
  const api::EndpointOptions& endpoint = prepared->options.endpoint;
  door.set_filters(filters_of(endpoint.use, parts),
                   endpoint.post ? filters_of(endpoint.post->use, parts) : http::Binding::Filters());
  door.ended = [feed, shards = shards_] { feed->remove(shards); };
}

Readings RoomComponent::readings_of(rooms::Door& door) const {
  return labelled(door.readings(), "http_route", prepared->options.path.value);
}

bool RealtimeComponent::is_same(const RealtimeComponent& other) const {
  return config::same(options, other.options) && options.longest_message == other.options.longest_message &&
         config::same(policies_, other.policies_) && channels_ == other.channels_;
}

std::shared_ptr<rooms::Hall> RealtimeComponent::make(const core::Here& here, const Parts& parts) const {
  const auto channels = parts.find(channels_.get());
  return {new rooms::Hall(here.reactor,
                          {.websocket = websocket_of(options, options.longest_message),
                           .clients = options.clients,
                           .rooms = options.rooms,
                           .heartbeat = options.heartbeat},
                          channels->pool),
          [channels](const rooms::Hall* hall) { delete hall; }};
}

void RealtimeComponent::serve(rooms::Hall& hall, const Parts& parts) const {
  std::vector<std::shared_ptr<rooms::Door>> doors;
  for (const Parts::One& one : parts.all()) {
    if (const auto room = std::dynamic_pointer_cast<RoomComponent>(one.component)) {
      doors.push_back(parts.find(room.get()));
    }
  }
  hall.set_doors(doors);
}

Readings RealtimeComponent::readings_of(rooms::Hall& hall) const {
  return labelled(
      {gauge("sluice_rooms_sockets", "WebSocket clients of rooms.", hall.sockets),
       counter("sluice_rooms_refused_total", "Clients that were refused because there were too many.", hall.refused)},
      "http_route", options.path.value);
}

}  // namespace sluice::app
