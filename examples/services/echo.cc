// Answers every message with the same message.
//   echo 127.0.0.1:9000
//   echo 127.0.0.1:9000 cert.pem key.pem    (with TLS)
#include "services/host.h"

namespace msg = sluice::msg;

class Echo final : public msg::Service {
  void wire(msg::Dispatcher& dispatcher) override {
    dispatcher.otherwise([](msg::Session& session, const msg::Frame& frame) { session.send(frame); });
  }
};

int main(int count, char** arguments) {
  sluice::services::HostOptions options;
  (count > 3 ? options.listen_tls : options.listen) = {count > 1 ? arguments[1] : "127.0.0.1:9000"};
  if (count > 3) options.tls.certificates = {{.certificate = arguments[2], .key = arguments[3]}};
  sluice::services::Host host(options);
  host.add<Echo>();
  return host.run();
}
