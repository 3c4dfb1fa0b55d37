#include "msg/context.h"

#include <new>
#include <stdexcept>
#include <string>

#include "base/log.h"

namespace sluice::msg {

bool Context::broadcast(Payload payload) {
  bool sent = true;
  for (unsigned other = 0; other < cores(); ++other) {
    if (other == core()) continue;
    const bool posted = core_.mesh().try_post(other, [contexts = &contexts_, payload](core::MeshPort& there) {
      (*contexts)[there.core()]->sessions_.broadcast(payload);
    });
    if (posted) continue;
    if (may_wait()) {
      spawn(broadcast_later(*this, other, payload));
    } else {
      sent = false;
    }
  }
  sessions_.broadcast(payload);
  return sent;
}

core::Task<void> Context::broadcast_later(Context& context, unsigned core, Payload payload) {
  const Waiting waiting(context.waiting_);
  auto send = [contexts = &context.contexts_, payload = std::move(payload)](core::MeshPort& there) {
    (*contexts)[there.core()]->sessions_.broadcast(payload);
  };
  const Instant deadline = context.core_.reactor().now() + longest_wait;
  (void)co_await context.core_.mesh().post(core, deadline, std::move(send));
}

bool Context::may_wait() {
  if (waiting_ < most_waiting) return true;
  log_error("core " + std::to_string(core()) + " sends more to other cores than they take; messages are dropped");
  return false;
}

void Context::throw_missing(const char* type) {
  throw std::logic_error(std::string("the host has no service of this type: ") + type);
}

void Context::log_failure(const char* what, const std::exception& error) {
  log_error(std::string(what) + " failed: " + error.what());
}

}  // namespace sluice::msg
