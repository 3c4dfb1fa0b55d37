#pragma once

#include <span>

#include "app/worker.h"
#include "core/core.h"
#include "http/handler.h"

namespace sluice::app {

// GET /upstreams of the admin listener: the servers of all upstreams as JSON, with the numbers of all cores.
class AdminUpstreams final : public http::Handler {
 public:
  AdminUpstreams(core::Core& core, std::span<Worker* const> workers) : core_(core), workers_(workers) {}

  core::Async<http::Response> handle(http::Exchange&) override { return gather(); }

 private:
  core::Task<http::Response> gather();

  core::Core& core_;
  std::span<Worker* const> workers_;
};

// POST /upstreams/{name}/drain?server=NAME and /upstreams/{name}/enable?server=NAME.
class AdminDrain final : public http::Handler {
 public:
  AdminDrain(core::Core& core, std::span<Worker* const> workers, bool drains)
      : core_(core), workers_(workers), drains_(drains) {}

  core::Async<http::Response> handle(http::Exchange& exchange) override;

 private:
  core::Task<http::Response> set(std::string upstream, std::string server);

  core::Core& core_;
  std::span<Worker* const> workers_;
  const bool drains_;
};

}  // namespace sluice::app
