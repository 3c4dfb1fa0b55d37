// [[room]] and [rooms]
#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "app/config/difference.h"
#include "app/explain/answer.h"
#include "app/prepare/opened_database.h"
#include "app/prepare/preparation.h"
#include "app/routes/endpoint/explain.h"
#include "app/routes/endpoint/prepare_endpoint.h"
#include "app/routes/room/published.h"
#include "app/routes/room/tables.h"
#include "app/routes/shapes.h"
#include "app/site.h"
#include "base/contains.h"

namespace sluice::app {
namespace {

using http::Method;

class RoomRoute final : public Route {
 public:
  RoomRoute(Plan& plan, std::shared_ptr<const RoomComponent> component, PreparedEndpoint prepared,
            std::vector<std::pair<Method, std::vector<api::openapi::Security>>> security)
      : Route(plan, shapes_of<RoomTables>(component->prepared->options)),
        component_(std::move(component)),
        endpoint_(std::move(prepared)),
        security_(std::move(security)) {}

  void build(Site& site) const override {
    Site::Builder builder(site, *this, shapes().front());
    rooms::Door& door = builder.part(*component_);
    builder.add([&](Method method) -> http::Handler* { return method == Method::post ? door.publisher() : &door; });
  }
  void explain(AnswerExplainer& into, const Shape&, http::Exchange& exchange) const override {
    const RoomOptions& options = component_->prepared->options;
    if (exchange.request.method == Method::post) return explain_endpoint(into, options.endpoint, endpoint_, exchange);
    into.add("room", "the rows of " + component_->prepared->published.table +
                         ", by WebSocket, text/event-stream, or as the answer of the history");
    explain_endpoint(into, options.endpoint, endpoint_, exchange);
  }
  void describe(Described& into) const override {
    into.resources.push_back({.options = &component_->prepared->options.endpoint,
                              .pattern = &endpoint_.pattern,
                              .get = endpoint_.get.get(),
                              .writes = endpoint_.writes,
                              .sets = endpoint_.sets,
                              .tables = endpoint_.tables,
                              .facts = endpoint_.facts,
                              .enums = *endpoint_.enums,
                              .security = security_});
  }
  bool is_same(const Route& before) const override {
    const auto* const other = dynamic_cast<const RoomRoute*>(&before);
    return other != nullptr && component_ == other->component_;
  }

 private:
  const std::shared_ptr<const RoomComponent> component_;
  const PreparedEndpoint endpoint_;
  const std::vector<std::pair<Method, std::vector<api::openapi::Security>>> security_;  // GET is always there
};

class RealtimeRoute final : public Route {
 public:
  RealtimeRoute(Plan& plan, std::shared_ptr<const RealtimeComponent> component)
      : Route(plan, shapes_of<RealtimeTable>(component->options)), component_(std::move(component)) {}

  void build(Site& site) const override {
    Site::Builder builder(site, *this, shapes().front());
    builder.add(&builder.part(*component_));
  }
  void explain(AnswerExplainer& into, const Shape&, http::Exchange&) const override {
    into.add("rooms", "a WebSocket that may subscribe to several rooms");
  }
  bool is_same(const Route& before) const override {
    const auto* const other = dynamic_cast<const RealtimeRoute*>(&before);
    return other != nullptr && component_ == other->component_;
  }

 private:
  const std::shared_ptr<const RealtimeComponent> component_;
};

// The component of the plan that is the same, or `made`.
template <class C>
std::shared_ptr<C> shared_component(Preparation& preparation, std::shared_ptr<C> made) {
  for (const auto& one : preparation.plan.all<C>()) {
    if (one->is_same(*made)) return one;
  }
  return preparation.plan.add(std::move(made), preparation.previous);
}

std::shared_ptr<WebSocketChannelsComponent> channels_of(Preparation& preparation) {
  return shared_component(preparation, std::make_shared<WebSocketChannelsComponent>());
}

}  // namespace

std::expected<void, Away> RoomTables::prepare(Preparation& preparation) {
  Plan& plan = preparation.plan;
  for (const RoomOptions& options : plan.options.room_tables) {
    const api::EndpointOptions& endpoint = options.endpoint;
    std::vector<std::pair<Method, std::vector<api::openapi::Security>>> security;
    security.emplace_back(Method::get, preparation.security(endpoint.use));
    if (endpoint.post) security.emplace_back(Method::post, preparation.security(endpoint.post->use));
    const std::size_t database = plan.options.index_of_database(options.database.value);
    if (!preparation.databases[database].database) continue;
    const std::size_t errors = preparation.errors.size();
    auto room = std::make_shared<RoomComponent::Prepared>();
    PublishedPreparation published(preparation, options, database, *room);
    auto known = published.learn_table();
    if (!known) return std::unexpected(Away{database, std::move(known.error())});
    if (!*known) continue;
    auto made = EndpointPreparation(preparation, endpoint, database).prepare();
    if (!made) return std::unexpected(Away{database, std::move(made.error())});
    if (!*made || !(*made)->get || errors != preparation.errors.size()) continue;
    PreparedEndpoint& prepared = **made;

    room->options = options;
    room->pattern = prepared.pattern;
    room->get = prepared.get;
    if (!prepared.writes.empty()) {
      room->publish = prepared.writes.front();
      plan.most_body = std::max<std::uint64_t>(plan.most_body, room->publish->body_limit);
    }
    room->policies = plan.policies_of(endpoint.use);
    if (endpoint.post) {
      for (auto& policy : plan.policies_of(endpoint.post->use)) room->policies.push_back(std::move(policy));
    }
    auto whole = published.prepare();
    if (!whole) return std::unexpected(Away{database, std::move(whole.error())});
    if (!*whole) continue;

    RoomComponent::Needs needs{.database = plan.databases[database],
                               .feed = shared_component(preparation, std::make_shared<RoomFeedComponent>(
                                                                         plan.databases[database], Plan::new_boot())),
                               .channels = channels_of(preparation)};
    auto component = plan.add(std::make_shared<RoomComponent>(std::move(room), std::move(needs), preparation.cores),
                              preparation.previous);
    plan.routes.push_back(
        std::make_shared<RoomRoute>(plan, std::move(component), std::move(prepared), std::move(security)));
  }
  return {};
}

std::expected<void, Away> RealtimeTable::prepare(Preparation& preparation) {
  Plan& plan = preparation.plan;
  if (!plan.options.rooms) return {};
  const RoomsOptions& options = *plan.options.rooms;
  (void)preparation.security(options.use);
  auto component =
      plan.add(std::make_shared<RealtimeComponent>(options, plan.policies_of(options.use), channels_of(preparation)),
               preparation.previous);
  plan.routes.push_back(std::make_shared<RealtimeRoute>(plan, std::move(component)));
  return {};
}

}  // namespace sluice::app
