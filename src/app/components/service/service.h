#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "app/components/component.h"
#include "app/components/service/options.h"
#include "app/components/service/registry.h"
#include "msg/context.h"
#include "services/databases.h"
#include "services/service_set.h"
#include "services/websocket.h"

namespace sluice::app {

// One core's part of a service.
struct ServicePart {
  using Contexts = std::vector<msg::Context*>;  // by core
  ServicePart(const core::Here& here, const msg::SessionOptions& options, std::shared_ptr<Contexts> of_cores)
      : contexts(std::move(of_cores)), set(here, options, *contexts), conversations(set.sessions()) {}
  const std::shared_ptr<Contexts> contexts;
  services::ServiceSet set;
  services::WebSocketSessions conversations;
  services::Databases* databases = nullptr;  // one of the set
};

// The services of one name. Every plan has one for each name, whether a route uses it or not. A reload changes their
// routes and limits, and keeps the services with their sessions.
class ServiceComponent final : public ComponentOf<ServiceComponent, ServicePart> {
 public:
  using Contexts = ServicePart::Contexts;
  // `entry` outlives this object. `contexts`: those of the component that this one replaces; otherwise one for each
  // core, which sets it before any core serves.
  ServiceComponent(const ServiceEntry& entry, const ServiceOptions& options, std::shared_ptr<Contexts> contexts)
      : entry_(entry), options_(options), contexts_(std::move(contexts)) {}

  [[nodiscard]] bool is_same(const ServiceComponent& other) const;
  [[nodiscard]] const std::string& name() const { return entry_.name; }
  [[nodiscard]] const std::shared_ptr<Contexts>& contexts() const { return contexts_; }

 private:
  std::shared_ptr<ServicePart> make(const core::Here& here, const Parts& parts) const override;
  bool adopts(const ServiceComponent& before) const override { return &entry_ == &before.entry_; }
  void serve(ServicePart& part, const Parts& parts) const override;
  void end(ServicePart& part) const override { part.set.stop(); }
  Readings readings_of(ServicePart& part) const override;

  const ServiceEntry& entry_;
  const ServiceOptions options_;
  const std::shared_ptr<Contexts> contexts_;
};

}  // namespace sluice::app
