#include "msg/context.h"

namespace sluice::msg {

void Context::broadcast(Payload payload) {
  for (unsigned other = 0; other < cores(); ++other) {
    if (other == core()) continue;
    const bool sent = core_.mesh().try_post(other, [contexts = &contexts_, payload](core::MeshPort& there) {
      (*contexts)[there.core()]->sessions_.broadcast(payload);
    });
    if (!sent) spawn(broadcast_later(*this, other, payload));
  }
  sessions_.broadcast(payload);
}

core::Task<void> Context::broadcast_later(Context& context, unsigned core, Payload payload) {
  auto send = [contexts = &context.contexts_, payload = std::move(payload)](core::MeshPort& there) {
    (*contexts)[there.core()]->sessions_.broadcast(payload);
  };
  const Instant deadline = context.core_.reactor().now() + longest_wait;
  (void)co_await context.core_.mesh().post(core, deadline, std::move(send));
}

}  // namespace sluice::msg
