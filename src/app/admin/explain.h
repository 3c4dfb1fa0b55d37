#pragma once

#include "app/explain/command.h"
#include "app/reloader.h"
#include "core/core.h"
#include "http/handler.h"

namespace sluice::app {

// POST /explain of the admin listener: how the configuration that is served answers a request, as `sluice explain
// --json` prints it. The body is {"method": "GET", "url": "/path", "headers": ["Name: value"], "client": "192.0.2.1"};
// `headers` and `client` may be missing. One explanation runs at a time, because a database may let it wait.
class AdminExplain final : public http::Handler {
 public:
  AdminExplain(core::Core& core, Reloader& reloader) : core_(core), reloader_(reloader) {}

  core::Async<http::Response> handle(http::Exchange& exchange) override;

 private:
  core::Task<http::Response> explain(const http::Request& request);
  core::Task<http::Response> explain(ExplainCommand command);

  core::Core& core_;
  Reloader& reloader_;
};

}  // namespace sluice::app
