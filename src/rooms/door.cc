#include "rooms/door.h"

#include <algorithm>
#include <string>
#include <unordered_map>

#include "base/utf8.h"
#include "http/accept.h"
#include "http/identity.h"
#include "http/query_string.h"
#include "rooms/session.h"
#include "rooms/stream.h"
#include "rooms/tables.h"

namespace sluice::rooms {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Whether the database would write the value in the same way.
bool is_canonical(ValueForm form, std::string_view text) {
  if (form == ValueForm::text) return is_utf8(text) && !text.contains('\0') && !text.contains(separator);
  if (form == ValueForm::integer) {
    if (text == "0") return true;
    if (text.starts_with('-')) text.remove_prefix(1);
    return !text.empty() && text.size() <= 18 && std::ranges::all_of(text, is_digit) && text[0] != '0';
  }
  if (text.size() != 36) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_dash = i == 8 || i == 13 || i == 18 || i == 23;
    if (is_dash ? text[i] != '-' : !is_digit(text[i]) && (text[i] < 'a' || text[i] > 'f')) return false;
  }
  return true;
}

void append_segment(std::string& path, std::string_view text) {
  constexpr std::string_view hex = "0123456789ABCDEF";
  for (const char c : text) {
    const bool plain =
        is_digit(c) || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '-' || c == '_' || c == '.' || c == '~';
    if (plain) {
      path.push_back(c);
    } else {
      const auto byte = static_cast<unsigned char>(c);
      path.append({'%', hex[byte >> 4], hex[byte & 15]});
    }
  }
}

}  // namespace

std::optional<Position> position_of(std::string_view query) {
  std::string scratch;
  const http::QueryString pairs(query, scratch);
  const auto offset = pairs.find("offset");
  const auto epoch = pairs.find("epoch");
  if (!offset) return std::nullopt;
  const auto number = parse_number(offset->text);
  return Position{.epoch = epoch ? parse_number(epoch->text).value_or(0) : 0, .offset = number.value_or(UINT64_MAX)};
}

http::Response refusal_of(Rooms::Refusal why) {
  http::Response response = http::problem(
      503, why == Rooms::Refusal::too_many ? "Too many rooms have clients." : "The room's history cannot be read now.");
  response.fields.add("Retry-After", "5");
  return response;
}

// Answers the GET of Calls by admitting the client.
class Door::Inner final : public http::Handler {
 public:
  explicit Inner(Door& door) : door_(door) {}
  core::Async<http::Response> handle(http::Exchange& exchange) override {
    return door_.admit(static_cast<Call&>(exchange));
  }

 private:
  Door& door_;
};

// Publishes in rooms that there are.
class Door::Publisher final : public http::Handler {
 public:
  explicit Publisher(Door& door) : door_(door) {}
  core::Async<http::Response> handle(http::Exchange& exchange) override {
    if (door_.name_of(exchange.request) == nullptr) return http::problem(404, "No room has this path.");
    return door_.parts_.publish->handle(exchange);
  }

 private:
  Door& door_;
};

Door::Door(const core::Here& here, DoorOptions options, Parts parts, ws::ChannelPool& channels)
    : here_(here),
      options_(std::move(options)),
      parts_(std::move(parts)),
      inner_(std::make_unique<Inner>(*this)),
      publisher_(std::make_unique<Publisher>(*this)),
      endpoint_(std::make_shared<http::websocket::Endpoint>(options_.websocket, *this, channels)),
      router_(std::make_shared<http::Router>()),
      random_(static_cast<std::uint32_t>(here.reactor.wall_clock_ns())) {
  parts_.rooms->set_judge(*this);
}

void Door::set_filters(http::Binding::Filters filters, http::Binding::Filters publish_filters) {
  filters_ = std::move(filters);
  publish_filters_ = std::move(publish_filters);
  router_ = std::make_shared<http::Router>();
  (void)router_->add(route());
}

Door::~Door() { parts_.rooms->stop(); }

http::Router::Route Door::route() {
  http::Router::Route route{.pattern = options_.pattern, .host = options_.host};
  route.handlers[static_cast<std::size_t>(http::Method::get)] = inner_.get();
  if (parts_.publish) route.handlers[static_cast<std::size_t>(http::Method::post)] = publisher_.get();
  route.binding = std::make_shared<http::Binding>(http::Binding::Filters(), filters_);
  route.binding->set_filters(http::Method::post, {}, publish_filters_);
  return route;
}

void Door::end() {
  parts_.rooms->end();
  endpoint_->drain();
  if (ended) std::exchange(ended, nullptr)();
}

void Door::drain() {
  for (const std::shared_ptr<View>& view : rooms().views()) {
    view->each([](Follower& follower) { static_cast<Seat&>(follower).server_ends(); });
  }
}

Readings Door::readings() const {
  const Rooms::Counts& counts = parts_.rooms->counts();
  const Owner::Counts& read = parts_.rooms->owner_counts();
  const auto clients = [](std::uint64_t count, std::string_view kind) {
    return gauge("sluice_rooms_clients", "Clients in rooms.", count, label("kind", kind));
  };
  return {
      clients(sockets, "websocket"),
      clients(streams, "stream"),
      gauge("sluice_rooms_subscriptions", "Clients in rooms; one in several rooms counts in each.", counts.followers),
      gauge("sluice_rooms_open", "Rooms that have clients.", counts.rooms),
      counter("sluice_rooms_publications_total", "Rows that were read for rooms.", read.publications),
      counter("sluice_rooms_deliveries_total", "Publications that were passed to clients.", counts.deliveries),
      counter("sluice_rooms_reads_total", "Queries of the history.", read.reads),
      counter("sluice_rooms_recovered_total", "Clients that came back and missed nothing.", counts.recovered),
      counter("sluice_rooms_unrecovered_total", "Clients that came back and had to read the room again.",
              counts.unrecovered),
      counter("sluice_rooms_resets_total", "Clients in a room that had to read it again.", counts.behind),
      counter("sluice_rooms_refused_total", "Clients that were refused: too many, or the database was away.",
              counts.refused + refused)};
}

ws::SharedMessage& Door::message_of(const SharedPublication& publication) {
  constexpr std::size_t most_messages = 8;
  for (auto& [of, message] : messages_) {
    if (of == publication) return message;
  }
  if (messages_.size() == most_messages) messages_.pop_front();
  return messages_
      .emplace_back(std::piecewise_construct, std::forward_as_tuple(publication),
                    std::forward_as_tuple(ws::Message::Kind::text, publication->message()))
      .second;
}

Duration Door::retry() { return options_.retry + options_.retry / 2 * static_cast<int>(random_() % 1024) / 1024; }

SharedName Door::name_of(std::span<const std::string_view> values) const {
  auto name = std::make_shared<Name>();
  std::size_t at = 0;
  for (const http::Pattern::Segment& segment : options_.pattern.segments) {
    name->path.push_back('/');
    if (segment.kind == http::Pattern::Kind::literal) {
      append_segment(name->path, segment.text);
      continue;
    }
    const std::string_view value = values[at];
    if (!is_canonical(options_.forms[at], value)) return nullptr;
    if (at++ != 0) name->key.push_back(separator);
    name->key.append(value);
    name->values.emplace_back(value);
    append_segment(name->path, value);
  }
  return name;
}

SharedName Door::name_of(const http::Request& request) const {
  return name_of({request.path_values.data(), options_.forms.size()});
}

core::Async<http::Response> Door::handle(http::Exchange& exchange) {
  const http::Request& request = exchange.request;
  const bool is_socket = !request.upgrade.empty() || request.method == http::Method::connect;
  const bool is_stream = http::quality_of(request.fields, "text", "event-stream") != 0 &&
                         request.field("accept").contains("text/event-stream");
  if (!is_socket && !is_stream) {
    if (name_of(request) == nullptr) return http::problem(404, "No room has this path.");
    return parts_.history->handle(exchange);
  }
  return enter(exchange);
}

core::Task<http::Response> Door::enter(http::Exchange& exchange) {
  SharedName room = name_of(exchange.request);
  if (room == nullptr) co_return http::problem(404, "No room has this path.");
  if (streams + sockets >= options_.clients) {
    ++refused;
    http::Response response = http::problem(503, "Too many clients are in rooms.");
    response.fields.add("Retry-After", "5");
    co_return response;
  }
  if (auto refusal = co_await parts_.gate->ask(exchange)) co_return std::move(*refusal);
  if (exchange.request.upgrade.empty() && exchange.request.method == http::Method::get) {
    co_return co_await stream(exchange, std::move(room));
  }
  co_return co_await endpoint_->handle(exchange);
}

core::Task<http::Response> Door::stream(http::Exchange& exchange, SharedName room) {
  const std::string_view last = exchange.request.field("last-event-id");
  std::optional<Position> since;
  if (last.empty()) {
    since = position_of(exchange.request.query);
  } else {
    since = parse_id(last).value_or(Position{});  // an id that is not ours: nothing can be recovered
  }
  auto stream = std::make_unique<Stream>(shared_from_this(), exchange);
  const auto joined = co_await rooms().join(*stream, room, since, here_.reactor.now() + join_patience);
  if (!joined) co_return refusal_of(joined.error());
  stream->greet(*joined);
  http::Response response;
  response.fields.add_trusted("Content-Type", "text/event-stream");
  response.fields.add_trusted("Cache-Control", "no-store, no-transform");
  response.fields.add_trusted("X-Accel-Buffering", "no");
  response.body = std::move(stream);
  co_return response;
}

core::Task<http::Response> Door::admit(Call& call) {
  SharedName room = name_of(call.request);
  if (room == nullptr) co_return http::problem(404, "No room has this path.");
  if (auto refusal = co_await parts_.gate->ask(call)) co_return std::move(*refusal);
  call.door = this;
  call.room = std::move(room);
  co_return http::Response{};
}

core::Task<void> Door::converse(ws::Channel& channel, const http::websocket::Opening& opening) {
  const std::shared_ptr<Door> keep = shared_from_this();
  std::vector<std::string_view> values;
  for (const auto& [name, value] : opening.parameters) values.push_back(value);
  SharedName room = name_of(values);
  Session session(here_.reactor, channel, opening, options_.heartbeat, 1);
  ++sockets;
  struct Counted {
    std::uint32_t& sockets;
    ~Counted() { --sockets; }
  } const counted{sockets};
  if (room == nullptr || !co_await session.begin(keep, std::move(room), position_of(opening.query))) co_return;
  co_await session.run([this] { return router_; });
}

core::Task<bool> Door::judge(std::shared_ptr<View> room) {
  std::vector<std::shared_ptr<const http::Claims>> claims;
  std::unordered_map<const http::Claims*, std::size_t> places;
  room->each([&](Follower& follower) {
    auto& seat = static_cast<Seat&>(follower);
    if (places.emplace(seat.claims.get(), claims.size()).second) claims.push_back(seat.claims);
  });
  const auto verdicts = co_await parts_.gate->judge(room->name(), claims);
  if (!verdicts) co_return false;
  // Clients that have joined meanwhile were admitted by a later query.
  room->each([&](Follower& follower) {
    auto& seat = static_cast<Seat&>(follower);
    const auto place = places.find(seat.claims.get());
    if (place != places.end() && !(*verdicts)[place->second]) seat.expel();
  });
  co_return true;
}

}  // namespace sluice::rooms
