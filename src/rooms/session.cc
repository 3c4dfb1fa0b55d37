#include "rooms/session.h"

#include <algorithm>
#include <utility>

#include "core/sleep.h"
#include "http/identity.h"
#include "http/standing.h"

namespace sluice::rooms {

class Session::Subscription final : public Seat {
 public:
  Subscription(Session& session, std::shared_ptr<Door> door, std::string asked)
      : session_(session), door_(std::move(door)), asked_(std::move(asked)) {}
  ~Subscription() override {
    leave();
    if (watching_ != nullptr) core::TaskGroup::cancel(*watching_);
    std::erase(session_.fresh_, this);
  }

  [[nodiscard]] bool is(std::string_view path) const { return path == room()->path || path == asked_; }
  [[nodiscard]] Door& door() { return *door_; }
  // Ends with the credentials of this exchange.
  void watch(const http::Exchange& exchange) {
    http::Standing standing(exchange);
    if (standing.next_look(session_.reactor_) != never) session_.tasks_.spawn(end(std::move(standing)), &watching_);
  }

  bool is_fresh = false;

 private:
  void news() override { session_.has_news(*this); }
  void expel() override { expelled_ = true, session_.has_news(*this); }
  core::Task<void> end(http::Standing standing) {
    co_await standing.end(session_.reactor_);
    watching_ = nullptr;  // this task outlives the subscription, which the news may end
    has_expired_ = true;
    session_.has_news(*this);
  }

 public:
  [[nodiscard]] bool is_expelled() const { return expelled_; }
  [[nodiscard]] bool has_expired() const { return has_expired_; }

 private:
  Session& session_;
  const std::shared_ptr<Door> door_;
  const std::string asked_;
  bool expelled_ = false;
  bool has_expired_ = false;
  core::TaskGroup::Member* watching_ = nullptr;
};

Session::Session(core::Reactor& reactor, ws::Channel& channel, const http::websocket::Opening& opening,
                 Duration heartbeat, std::size_t most_rooms)
    : reactor_(reactor), channel_(channel), opening_(opening), most_rooms_(most_rooms), last_sent_(reactor.now()) {
  tasks_.spawn(beat(heartbeat));
}

Session::~Session() {
  subscriptions_.clear();
  tasks_.cancel();
}

core::Task<bool> Session::begin(std::shared_ptr<Door> door, SharedName room, std::optional<Position> since) {
  has_own_room_ = true;
  auto subscription = std::make_unique<Subscription>(*this, door, std::string());
  subscription->claims = opening_.claims;
  const auto joined = co_await door->rooms().join(*subscription, room, since, reactor_.now() + join_patience);
  if (!joined) {
    co_await channel_.close(ws::CloseCode::try_again_later, "the history of the room cannot be read now");
    co_return false;
  }
  subscriptions_.push_back(std::move(subscription));
  say(subscribed(room->path, joined->position, joined->recovered, {}));
  co_return true;
}

core::Task<void> Session::run(Routes routes) {
  for (;;) {
    const auto message = co_await channel_.receive();
    if (!message) co_return;
    if (message->kind != ws::Message::Kind::text) {
      co_return co_await channel_.close(ws::CloseCode::unsupported_data, "a message is a text");
    }
    auto command = reader_.read(message->data);
    if (!command) co_return co_await channel_.close(ws::CloseCode::policy_violation, command.error());
    co_await perform(std::move(*command), routes);
    // A client that does not read the answers is not read either.
    while (!answers_.empty() && !channel_.closing()) co_await core::Sleep(reactor_, reactor_.now() + 10ms);
  }
}

core::Task<void> Session::perform(Command command, const Routes& routes) {
  if (has_own_room_ && command.room.empty() && !subscriptions_.empty()) {
    command.room = subscriptions_.front()->room()->path;
  }
  switch (command.kind) {
    case Command::Kind::subscribe:
      return subscribe(command, routes);
    case Command::Kind::publish:
      return publish(std::move(command), routes);
    case Command::Kind::unsubscribe:
      unsubscribe(command);
  }
  return [] -> core::Task<void> { co_return; }();
}

Session::Subscription* Session::find(std::string_view room) {
  const auto found = std::ranges::find_if(subscriptions_, [&](const auto& one) { return one->is(room); });
  return found == subscriptions_.end() ? nullptr : found->get();
}

void Session::refuse(const Command& command, const http::Response& response) {
  std::string_view retry_after;
  for (const http::Field& field : response.fields.items()) {
    if (http::same_name(field.name, "Retry-After")) retry_after = field.value;
  }
  say(refused(command.room, response.status, text_of(response), retry_after, command.id));
}

core::Task<void> Session::subscribe(const Command& command, const Routes& routes) {
  if (has_own_room_) co_return refuse(command, http::problem(409, "This connection is for the room at its path."));
  if (find(command.room) != nullptr) co_return refuse(command, http::problem(409, "The client is in this room."));
  if (subscriptions_.size() >= most_rooms_) {
    co_return refuse(command, http::problem(429, "The client is in as many rooms as it may be in."));
  }
  Call call(opening_, http::Method::get, command.room, {});
  if (!call.is_valid() || !call.request.query.empty())
    co_return refuse(command, http::problem(400, "The room's path is invalid."));
  const auto router = routes();
  const http::Response response = co_await router->handle(call);
  call.end({.status = response.status, .broken = false});
  if (call.door == nullptr) co_return refuse(command, response);
  if (find(call.room->path) != nullptr) {
    co_return refuse(command, http::problem(409, "The client is in this room."));
  }
  auto subscription = std::make_unique<Subscription>(*this, call.door->shared_from_this(), command.room);
  subscription->claims = http::shared_claims_of(call);
  const auto joined =
      co_await call.door->rooms().join(*subscription, call.room, command.position, reactor_.now() + join_patience);
  if (!joined) co_return refuse(command, refusal_of(joined.error()));
  subscription->watch(call);
  subscriptions_.push_back(std::move(subscription));
  say(subscribed(call.room->path, joined->position, joined->recovered, command.id));
}

void Session::unsubscribe(const Command& command) {
  Subscription* const found = find(command.room);
  if (found == nullptr || has_own_room_) {
    return refuse(
        command, http::problem(has_own_room_ ? 409 : 404, has_own_room_ ? "This connection is for the room at its path."
                                                                        : "The client is not in this room."));
  }
  const std::string path = found->room()->path;
  std::erase_if(subscriptions_, [&](const auto& one) { return one.get() == found; });
  say(unsubscribed(path, 204, {}, command.id));
}

core::Task<void> Session::publish(Command command, const Routes& routes) {
  if (has_own_room_ && find(command.room) == nullptr) {
    co_return refuse(command, http::problem(409, "This connection is for the room at its path."));
  }
  // Conditions may look at the query with which the client has connected.
  std::string target = command.room;
  if (has_own_room_ && !opening_.query.empty()) target += '?' + std::string(opening_.query);
  Call call(opening_, http::Method::post, std::move(target), std::move(command.data));
  if (!call.is_valid()) co_return refuse(command, http::problem(400, "The room's path is invalid."));
  const auto router = routes();
  const http::Response response = co_await router->handle(call);
  call.end({.status = response.status, .broken = false});
  if (response.status >= 300) co_return refuse(command, response);
  say(published(command.room, response.status, command.id));
}

void Session::say(std::string message) {
  answers_.push_back(std::move(message));
  pump();
}

void Session::has_news(Subscription& subscription) {
  if (!std::exchange(subscription.is_fresh, true)) fresh_.push_back(&subscription);
  pump();
}

void Session::pump() {
  if (is_waiting_) return;
  if (auto waiting = send_some()) tasks_.spawn(finish(std::move(*waiting)));
}

core::Task<void> Session::finish(core::Task<Result<void>> waiting) {
  is_waiting_ = true;
  for (;;) {
    const auto sent = co_await std::move(waiting);
    if (!sent) break;  // the conversation is over
    auto next = send_some();
    if (!next) break;
    waiting = std::move(*next);
  }
  is_waiting_ = false;
}

std::optional<core::Task<Result<void>>> Session::send_some() {
  last_sent_ = reactor_.now();
  while (!channel_.closing()) {
    core::Async<Result<void>> sending(Result<void>{});
    if (!answers_.empty()) {
      sent_answer_ = std::move(answers_.front());
      answers_.pop_front();
      sending = channel_.send(ws::Message::Kind::text, sent_answer_);
    } else if (!fresh_.empty()) {
      Subscription& subscription = *fresh_.front();
      if (subscription.is_expelled() || subscription.has_expired()) {
        drop(subscription, subscription.is_expelled() ? 403 : 401,
             subscription.is_expelled() ? "The client may no longer stay." : "The credentials have ended.");
        continue;
      }
      Follower::Next next = subscription.next();
      switch (next.kind) {
        case Follower::Next::Kind::nothing:
          subscription.is_fresh = false;
          fresh_.erase(fresh_.begin());
          continue;
        case Follower::Next::Kind::ended:
          drop(subscription, 503, "The configuration has changed; subscribe again.");
          continue;
        case Follower::Next::Kind::publication:
          sent_publication_ = std::move(next.publication);
          sending = channel_.send(subscription.door().message_of(sent_publication_));
          break;
        case Follower::Next::Kind::behind:
        case Follower::Next::Kind::rewound:
          sent_answer_ = reset(subscription.room()->path, next.position,
                               next.kind == Follower::Next::Kind::behind ? "behind" : "rewound");
          sending = channel_.send(ws::Message::Kind::text, sent_answer_);
          break;
      }
    } else {
      break;
    }
    if (!sending.ready()) return sending.take_task();
  }
  if (channel_.closing()) answers_.clear();
  return std::nullopt;
}

void Session::drop(Subscription& subscription, int status, std::string_view detail) {
  if (has_own_room_) {
    answers_.clear();
    channel_.drain(status == 503   ? ws::CloseCode::going_away
                   : status == 401 ? ws::CloseCode::unauthorized
                                   : ws::CloseCode::forbidden);
    return;
  }
  answers_.push_back(unsubscribed(subscription.room()->path, status, detail, {}));
  std::erase_if(subscriptions_, [&](const auto& one) { return one.get() == &subscription; });
}

// Says something if nothing else was said. A client that has not read what was sent gets nothing on top.
core::Task<void> Session::beat(Duration pause) {
  for (;;) {
    co_await core::Sleep(reactor_, last_sent_ + pause);
    if (reactor_.now() - last_sent_ < pause) continue;
    if (is_waiting_) {
      last_sent_ = reactor_.now();
    } else {
      say(std::string(ping));
    }
  }
}

}  // namespace sluice::rooms
