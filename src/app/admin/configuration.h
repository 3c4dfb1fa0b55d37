#pragma once

#include <span>

#include "app/worker.h"
#include "core/core.h"
#include "http/handler.h"

namespace sluice::app {

// GET /configuration of the admin listener: the text of the configuration that is served, with `***` for what may be
// secret.
class AdminConfiguration final : public http::Handler {
 public:
  AdminConfiguration(core::Core& core, std::span<Worker* const> workers) : core_(core), workers_(workers) {}

  core::Async<http::Response> handle(http::Exchange&) override;

 private:
  core::Core& core_;
  const std::span<Worker* const> workers_;
};

}  // namespace sluice::app
