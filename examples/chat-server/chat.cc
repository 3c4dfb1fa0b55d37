// Rooms behind the policies of sluice.toml: what one client says, all clients of its room hear, on all cores. A new
// client hears the last messages from the database.
#include <string>
#include <string_view>
#include <utility>

#include "app/program/program.h"

namespace msg = sluice::msg;
namespace services = sluice::services;
using services::Value;

constexpr std::uint32_t say_id = 101;      // from a client: a text; to the room: "id name: text"
constexpr std::uint32_t whisper_id = 102;  // from a client: "name text"; to the clients with that name: "name: text"
constexpr std::uint32_t joined_id = 103;   // to the room: the name of a client that has come
constexpr std::uint32_t left_id = 104;     // to the room: the name of one that has gone

class Chat final : public msg::Service {
  void configure(msg::Context& context) override {
    context_ = &context;
    database_ = &services::database(context, "main");
  }

  void wire(msg::Dispatcher& dispatcher) override {
    dispatcher.on(say_id, [this](msg::Session& session, const msg::Frame& frame) { return say(session, frame); });
    dispatcher.on(whisper_id, [this](msg::Session& session, const msg::Frame& frame) {
      const std::string_view body = msg::text_of(frame.body);
      const auto space = body.find(' ');
      if (space == body.npos)
        return (void)session.send_error(frame, msg::ErrorCode{1000}, "A name, and then the text.");
      send("client " + std::string(body.substr(0, space)), whisper_id,
           name_of(session) + ": " + std::string(body.substr(space + 1)));
    });
  }

  void opened(msg::Session& session) override {
    context_->join(session, group_of(session));
    context_->join(session, "client " + name_of(session));
    send(group_of(session), joined_id, name_of(session));
    context_->spawn(tell_the_past(msg::SessionRef(session)));
  }
  void closed(msg::Session& session, msg::Ended) override { send(group_of(session), left_id, name_of(session)); }

  // The session's next message waits for the end of this, so its messages keep their order.
  sluice::core::Task<void> say(msg::Session& session, const msg::Frame& frame) {
    const std::string text(msg::text_of(frame.body));
    // A new client gets the last twenty at once.
    if (text.size() > 4096) co_return (void) session.send_error(frame, msg::ErrorCode{1001}, "At most 4,096 bytes.");
    const auto written = co_await database_->write(
        "INSERT INTO messages (room, name, text) VALUES (:room, :name, :text) RETURNING id, name, text",
        Value("room", room_of(session)), Value("name", name_of(session)), Value("text", text));
    if (!written) co_return (void) session.send_error(frame, msg::ErrorCode::overloaded, "It could not be kept.");
    send(group_of(session), say_id, line_of(*written, 0));
  }

  // The client is in its room already, so it may hear a message twice; the ids tell.
  sluice::core::Task<void> tell_the_past(msg::SessionRef session) {
    const auto rows = co_await database_->read(
        "SELECT id, name, text FROM (SELECT * FROM messages WHERE room = :room ORDER BY id DESC LIMIT 20) AS last "
        "ORDER BY id",
        Value("room", room_of(*session)));
    if (!rows) co_return;
    for (std::size_t row = 0; row < rows->size(); ++row) session->send(say_id, line_of(*rows, row));
  }
  static std::string line_of(const services::Rows& rows, std::size_t row) {
    const auto text = [&](std::string_view column) { return std::string(rows.at(row, column).value_or("")); };
    return text("id") + " " + text("name") + ": " + text("text");
  }

  // The policy "auth" has checked the token; one without a subject has an empty name.
  static std::string name_of(const msg::Session& session) { return std::string(session.handshake()->claim("sub")); }
  // A client over TCP has no path, and comes to the lobby.
  static std::string_view room_of(const msg::Session& session) {
    const std::string_view room = session.handshake()->parameter("room");
    return room.empty() ? "lobby" : room;
  }
  static std::string group_of(const msg::Session& session) { return "room " + std::string(room_of(session)); }
  void send(const std::string& group, std::uint32_t id, const std::string& text) {
    context_->broadcast(group, {.id = id, .body = msg::bytes_of(text)});
  }

  msg::Context* context_ = nullptr;
  services::Database* database_ = nullptr;
};

int main(int count, char** arguments) {
  sluice::Program program;
  program.add<Chat>("chat");
  return program.run(count, arguments);
}
