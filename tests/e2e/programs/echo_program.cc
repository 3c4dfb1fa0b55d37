// The service of tests/e2e/test_frames.py, in a program with sluice.toml, and alone:
//   echo_program serve sluice.toml
//   echo_program alone TCP_ADDRESS UNIX_ADDRESS WEBSOCKET_ADDRESS TLS_ADDRESS CERTIFICATE KEY
#include <atomic>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "app/program/program.h"
#include "core/sleep.h"
#include "services/host.h"

namespace msg = sluice::msg;

constexpr std::uint32_t who_id = 200;  // answered with the claim "sub", the address, and "tls" or "plain"
constexpr std::uint32_t throws_id = 201;
constexpr std::uint32_t waits_id = 202;    // is never answered
constexpr std::uint32_t unknown_id = 203;  // has no handler
constexpr std::uint32_t join_id = 204;     // joins the group that the body names
constexpr std::uint32_t say_id = 205;      // body: a group, a space, and the text for it
constexpr std::uint32_t waiting_id = 206;  // answered with the number of handlers that wait, on all cores
constexpr std::uint32_t fails_id = 207;    // a function on the next core throws

class Echo final : public msg::Service {
  void configure(msg::Context& context) override { context_ = &context; }
  void wire(msg::Dispatcher& dispatcher) override {
    dispatcher.on(who_id, [](msg::Session& session, const msg::Frame& frame) {
      const msg::Handshake* const handshake = session.handshake();
      session.reply(frame, who_id,
                    std::string(handshake != nullptr ? handshake->claim("sub") : "") + " " + session.peer() + " " +
                        (session.secure() ? "tls" : "plain"));
    });
    dispatcher.on(throws_id, [](msg::Session&, const msg::Frame&) { throw std::runtime_error("as asked"); });
    dispatcher.on(waits_id, [this](msg::Session&, const msg::Frame&) { return wait(); });
    dispatcher.on(join_id, [this](msg::Session& session, const msg::Frame& frame) {
      context_->join(session, msg::text_of(frame.body));
      session.send(frame);
    });
    dispatcher.on(say_id, [this](msg::Session&, const msg::Frame& frame) {
      const std::string_view body = msg::text_of(frame.body);
      context_->broadcast(body.substr(0, body.find(' ')), frame);
    });
    dispatcher.on(waiting_id, [](msg::Session& session, const msg::Frame& frame) {
      session.reply(frame, waiting_id, std::to_string(waiting.load()));
    });
    dispatcher.on(fails_id, [this](msg::Session&, const msg::Frame&) { return fail(); });
    dispatcher.otherwise([](msg::Session& session, const msg::Frame& frame) {
      if (frame.id == unknown_id) {
        session.send_error(frame, msg::ErrorCode::unknown_message, "There is no such message.");
      } else {
        session.send(frame);
      }
    });
  }
  void start() override { context_->log("echo has started"); }
  void stop() override { context_->log("echo has stopped"); }

  sluice::core::Task<void> wait() {
    struct Counted {
      Counted() { ++waiting; }
      ~Counted() { --waiting; }
    } counted;
    co_await sluice::core::Sleep(context_->reactor(), context_->reactor().now() + std::chrono::hours(1));
  }

  sluice::core::Task<void> fail() {
    const auto throws = [](Echo&) { throw std::runtime_error("on another core"); };
    const unsigned next = (context_->core() + 1) % context_->cores();
    (void)co_await context_->call<Echo>(next, context_->reactor().now() + std::chrono::seconds(10), throws);
  }

  static inline std::atomic<int> waiting = 0;
  msg::Context* context_ = nullptr;
};

int main(int count, char** arguments) {
  if (count == 8 && std::string_view(arguments[1]) == "alone") {
    sluice::services::HostOptions options{
        .listen = {arguments[2], arguments[3]}, .listen_tls = {arguments[5]}, .listen_websocket = {arguments[4]}};
    options.websocket.path.value = "/echo";
    options.tls.certificates = {{.certificate = arguments[6], .key = arguments[7]}};
    sluice::services::Host host(std::move(options));
    host.add<Echo>();
    return host.run();
  }
  sluice::Program program;
  program.add<Echo>("echo");
  return program.run(count, arguments);
}
