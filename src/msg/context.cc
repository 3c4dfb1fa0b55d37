#include "msg/context.h"

#include <new>
#include <stdexcept>
#include <string>

#include "base/log.h"

namespace sluice::msg {

bool Context::broadcast(Payload payload) {
  const bool sent = send_to_others([contexts = &contexts_, payload](core::MeshPort& there) {
    (*contexts)[there.core()]->sessions_.broadcast(payload);
  });
  sessions_.broadcast(payload);
  return sent;
}

bool Context::broadcast(std::string_view group, Payload payload) {
  const bool sent = send_to_others([contexts = &contexts_, group = std::string(group), payload](core::MeshPort& there) {
    (*contexts)[there.core()]->groups_.broadcast(group, payload);
  });
  groups_.broadcast(group, payload);
  return sent;
}

void Context::log(std::string_view line) const { log_error(line); }

void Context::log_left_out(unsigned core) const {
  log_error("core " + std::to_string(this->core()) + " sends more to core " + std::to_string(core) +
            " than it takes; messages are dropped");
}

void Context::throw_missing(const char* type) {
  throw std::logic_error(std::string("the host has no service of this type: ") + type);
}

void Context::log_failure(const char* what, const std::exception& error) {
  log_error(std::string(what) + " failed: " + error.what());
}

}  // namespace sluice::msg
