#pragma once

#include <span>
#include <string>

#include "app/redaction.h"
#include "base/buffer.h"
#include "core/reactor.h"
#include "http/server.h"

namespace sluice::app {

// Writes a line of JSON for every request to standard output, without credentials. The lines of one turn of the event
// loop are written with one write().
class AccessLog {
 public:
  AccessLog(const Redaction& redaction, core::Reactor& reactor)
      : redaction_(redaction), reactor_(reactor), flush_(*this) {}
  ~AccessLog() { flush(); }

  // `routes`: the names of the routes, by id.
  void add(const http::Completion& completion, std::span<const std::string> routes);
  void flush();

 private:
  struct Flush : core::TurnHook {
    explicit Flush(AccessLog& log)
        : TurnHook([](core::TurnHook& hook) noexcept { static_cast<Flush&>(hook).log.flush(); }), log(log) {}
    AccessLog& log;
  };

  const Redaction& redaction_;
  core::Reactor& reactor_;
  Buffer lines_;
  Flush flush_;
};

}  // namespace sluice::app
