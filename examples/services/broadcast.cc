// A room for everyone: what one client says, all clients of all cores hear, with the speaker's name.
//   broadcast 127.0.0.1:9000 127.0.0.1:9001    (the second address is for WebSockets: ws://127.0.0.1:9001/room)
#include <any>
#include <string>

#include "services/host.h"

namespace msg = sluice::msg;

constexpr std::uint32_t name_id = 100;   // from a client: its name
constexpr std::uint32_t say_id = 101;    // from a client: a text; to everyone: "name: text"
constexpr std::uint32_t count_id = 102;  // to everyone, every minute: how many clients this core has

class Room final : public msg::Service {
  void configure(msg::Context& context) override { context_ = &context; }

  void wire(msg::Dispatcher& dispatcher) override {
    dispatcher.on(name_id, [](msg::Session& session, const msg::Frame& frame) {
      session.data = std::string(msg::text_of(frame.body));
    });
    dispatcher.on(say_id, [this](msg::Session& session, const msg::Frame& frame) {
      const auto* name = std::any_cast<std::string>(&session.data);
      if (name == nullptr) return (void)session.send_error(frame, msg::ErrorCode{1000}, "Say your name first.");
      const std::string text = *name + ": " + std::string(msg::text_of(frame.body));
      context_->broadcast({.id = say_id, .body = msg::bytes_of(text)});
    });
  }

  void start() override {
    context_->every(std::chrono::minutes(1), [this] {
      const std::string count = std::to_string(context_->sessions().all().size());
      context_->sessions().broadcast(msg::make_payload({.id = count_id, .body = msg::bytes_of(count)}));
    });
  }

  msg::Context* context_ = nullptr;
};

int main(int count, char** arguments) {
  sluice::services::HostOptions options;
  options.listen = {count > 1 ? arguments[1] : "127.0.0.1:9000"};
  options.listen_websocket = {count > 2 ? arguments[2] : "127.0.0.1:9001"};
  options.websocket.path.value = "/room";
  options.websocket.compression = sluice::ws::Compression::message;
  sluice::services::Host host(options);
  host.add<Room>();
  return host.run();
}
