// Services for bench/run_services.py:
//   services serve sluice.toml             with the services "echo" and "rows"
//   services alone TCP_ADDRESS WS_ADDRESS  the echo without routes and policies
#include <string_view>

#include "app/program/program.h"
#include "services/databases.h"
#include "services/host.h"

namespace msg = sluice::msg;

namespace {

constexpr std::uint32_t message_id = 7;

class Echo final : public msg::Service {
  void wire(msg::Dispatcher& dispatcher) override {
    dispatcher.on(message_id,
                  [](msg::Session& session, const msg::Frame& frame) { session.reply(frame, message_id, frame.body); });
  }
};

// Answers with the text of one row, always the same.
class Rows final : public msg::Service {
  void configure(msg::Context& context) override { database_ = &sluice::services::database(context, "main"); }
  void wire(msg::Dispatcher& dispatcher) override {
    dispatcher.on(message_id,
                  [this](msg::Session& session, const msg::Frame& frame) { return answer(session, frame); });
  }
  sluice::core::Task<void> answer(msg::Session& session, const msg::Frame& frame) {
    const auto rows =
        co_await database_->read("SELECT text FROM rows WHERE id = :id", sluice::services::Value("id", 7));
    if (rows && !rows->empty()) {
      session.reply(frame, message_id, *rows->at(0, "text"));
    } else {
      session.send_error(frame, msg::ErrorCode::internal, "There is no row.");
    }
  }

  sluice::services::Database* database_ = nullptr;
};

}  // namespace

int main(int count, char** arguments) {
  if (count == 4 && std::string_view(arguments[1]) == "alone") {
    sluice::services::HostOptions options{.listen = {arguments[2]}, .listen_websocket = {arguments[3]}, .cores = 1};
    options.websocket.path.value = "/echo";
    sluice::services::Host host(std::move(options));
    host.add<Echo>();
    return host.run();
  }
  sluice::Program program;
  program.add<Echo>("echo");
  program.add<Rows>("rows");
  return program.run(count, arguments);
}
