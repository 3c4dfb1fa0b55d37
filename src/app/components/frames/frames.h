#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "app/components/component.h"
#include "app/components/policies.h"
#include "app/components/service/service.h"
#include "app/routes/frames/options.h"
#include "http/observer.h"
#include "msg/server.h"
#include "net/acceptor.h"

namespace sluice::app {

// One core's part of [[frames]].
struct FramesPart {
  FramesPart(core::Reactor& of_core, std::shared_ptr<ServicePart> of)
      : reactor(of_core), service(std::move(of)), server(service->set.sessions(), {}) {}

  core::Reactor& reactor;
  const std::shared_ptr<ServicePart> service;
  http::Observer* observer = nullptr;  // of the core; learns of its clients
  Policies policies;                   // that its sessions have passed
  msg::Server server;
};

// [[frames]]. One that differs adopts the part of the one before that listens on the same first address. New sessions
// pass the new policies; those that have passed others are closed.
class FramesComponent final : public ComponentOf<FramesComponent, FramesPart> {
 public:
  // `route`: the id of its name in metrics.
  FramesComponent(FramesOptions of, Policies used, std::uint16_t route, std::shared_ptr<const ServiceComponent> service)
      : options(std::move(of)), policies_(std::move(used)), route_(route), service_(std::move(service)) {}

  [[nodiscard]] bool is_same(const FramesComponent& other) const;
  const FramesOptions options;
  // Claimed before the cores have the component.
  mutable std::vector<net::Listening> addresses;

 private:
  std::shared_ptr<FramesPart> make(const core::Here& here, const Parts& parts) const override;
  bool adopts(const FramesComponent& before) const override;
  void serve(FramesPart& part, const Parts& parts) const override;
  void retire(FramesPart& part) const override;

  const Policies policies_;
  const std::uint16_t route_;
  const std::shared_ptr<const ServiceComponent> service_;
};

}  // namespace sluice::app
