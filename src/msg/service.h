#pragma once

#include "msg/dispatcher.h"
#include "msg/session.h"

namespace sluice::msg {

class Context;

// The base of an application's services. The host makes one instance of each on every core, and calls its functions on
// that core, so a service needs no locks. Life cycle: constructor, configure(), wire(), start(); messages and sessions;
// stop(), destructor. Each step is taken by all services of a core, in the order in which they were added, before the
// next step; stop() in reverse.
class Service {
 public:
  Service() = default;
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;
  virtual ~Service() = default;

  // Keep the context, read settings, open files. An exception ends the host before it serves anyone. `context` outlives
  // the service.
  virtual void configure(Context& /*context*/) {}
  // Register handlers. Throws to end the host, like configure().
  virtual void wire(Dispatcher& /*dispatcher*/) {}
  // The core is about to run: start tasks. Clients may connect from now on.
  virtual void start() {}
  // No session is left, and tasks are about to be cancelled.
  virtual void stop() {}

  // A session of this core has begun, or has ended and cannot send any more. Must not throw.
  virtual void opened(Session& /*session*/) {}
  virtual void closed(Session& /*session*/, Ended /*why*/) {}
};

}  // namespace sluice::msg
