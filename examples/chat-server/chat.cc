// Rooms behind the policies of sluice.toml: what one client says, all clients of its room hear, on all cores.
#include <string>
#include <string_view>
#include <utility>

#include "app/program/program.h"

namespace msg = sluice::msg;

constexpr std::uint32_t say_id = 101;      // from a client: a text; to the room: "name: text"
constexpr std::uint32_t whisper_id = 102;  // from a client: "name text"; to the clients with that name: "name: text"
constexpr std::uint32_t joined_id = 103;   // to the room: the name of a client that has come
constexpr std::uint32_t left_id = 104;     // to the room: the name of one that has gone

class Chat final : public msg::Service {
  void configure(msg::Context& context) override { context_ = &context; }

  void wire(msg::Dispatcher& dispatcher) override {
    dispatcher.on(say_id, [this](msg::Session& session, const msg::Frame& frame) {
      send(room_of(session), say_id, name_of(session) + ": " + std::string(msg::text_of(frame.body)));
    });
    dispatcher.on(whisper_id, [this](msg::Session& session, const msg::Frame& frame) {
      const std::string_view body = msg::text_of(frame.body);
      const auto space = body.find(' ');
      if (space == body.npos) return (void)session.send_error(frame, msg::ErrorCode{1000}, "Whom, and then the text.");
      send("client " + std::string(body.substr(0, space)), whisper_id,
           name_of(session) + ": " + std::string(body.substr(space + 1)));
    });
  }

  void opened(msg::Session& session) override {
    context_->join(session, room_of(session));
    context_->join(session, "client " + name_of(session));
    send(room_of(session), joined_id, name_of(session));
  }
  void closed(msg::Session& session, msg::Ended) override { send(room_of(session), left_id, name_of(session)); }

  // The policy "auth" has checked the token, so there is a name.
  static std::string name_of(const msg::Session& session) { return std::string(session.handshake()->claim("sub")); }
  static std::string room_of(const msg::Session& session) {
    return "room " + std::string(session.handshake()->parameter("room"));
  }
  void send(const std::string& group, std::uint32_t id, const std::string& text) {
    context_->broadcast(group, {.id = id, .body = msg::bytes_of(text)});
  }

  msg::Context* context_ = nullptr;
};

int main(int count, char** arguments) {
  sluice::Program program;
  program.add<Chat>("chat");
  return program.run(count, arguments);
}
