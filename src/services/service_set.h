#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/reading.h"
#include "core/here.h"
#include "core/task.h"
#include "msg/context.h"
#include "msg/dispatcher.h"
#include "msg/sessions.h"

namespace sluice::services {

// Adds one service to the context of a core.
using MakeService = std::function<void(msg::Context&)>;

// One core's services with the sessions that they share. The services learn of each of them.
class ServiceSet final : msg::Sessions::Observer {
 public:
  // `contexts`: of the sets of all cores, as large as there are cores; this one enters itself. All references outlive
  // the object.
  ServiceSet(const core::Here& here, const msg::SessionOptions& options, std::vector<msg::Context*>& contexts);
  ServiceSet(const ServiceSet&) = delete;

  // Makes, configures and wires the services. Throws what they throw.
  void set_up(const std::vector<MakeService>& make);
  // Starts them, once: a further call does nothing. Until then no session may begin.
  void start();
  // Ends all sessions at once, stops the services in reverse order and cancels their tasks. Does nothing if they have
  // not been started.
  void stop();

  [[nodiscard]] msg::Sessions& sessions() { return sessions_; }
  [[nodiscard]] const msg::Sessions& sessions() const { return sessions_; }

 private:
  void opened(msg::Session& session) override {
    for (const auto& entry : context_.services()) entry.service->opened(session);
  }
  void closed(msg::Session& session, msg::Ended why) override {
    for (const auto& entry : context_.services()) entry.service->closed(session, why);
    context_.leave_all(session);
  }

  bool is_running_ = false;
  msg::Dispatcher dispatcher_;
  msg::Sessions sessions_;
  core::TaskGroup tasks_;  // of the services
  msg::Context context_;
};

}  // namespace sluice::services
