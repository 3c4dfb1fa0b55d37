#pragma once

#include <span>
#include <string>

#include "app/log/redaction.h"
#include "base/log_writer.h"
#include "core/reactor.h"
#include "http/server.h"

namespace sluice::app {

// Writes a line of JSON for every request to `output`, without credentials. The lines of one turn of the event loop are
// written together.
class AccessLog {
 public:
  AccessLog(const Redaction& redaction, core::Reactor& reactor, LogWriter& output)
      : redaction_(redaction), reactor_(reactor), output_(output), flush_(*this) {}
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
  LogWriter& output_;
  std::string lines_;
  Flush flush_;
};

}  // namespace sluice::app
