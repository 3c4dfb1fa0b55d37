#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "app/components/component.h"
#include "app/components/service/registry.h"
#include "msg/context.h"
#include "services/databases.h"
#include "services/service_set.h"
#include "services/websocket.h"

namespace sluice::app {

// One core's part of a service.
struct ServicePart {
  ServicePart(const core::Here& here, std::vector<msg::Context*>& contexts)
      : set(here, {}, contexts), conversations(set.sessions()) {}
  services::ServiceSet set;
  services::WebSocketSessions conversations;
  services::Databases* databases = nullptr;  // one of the set
};

// The services of one name. Every plan has one for each name, whether a route uses it or not, so a reload changes their
// routes and keeps the services with their sessions.
class ServiceComponent final : public ComponentOf<ServiceComponent, ServicePart> {
 public:
  // `entry` outlives this object.
  ServiceComponent(const ServiceEntry& entry, unsigned cores) : entry_(entry), contexts_(cores) {}

  [[nodiscard]] bool is_same(const ServiceComponent& other) const { return &entry_ == &other.entry_; }
  [[nodiscard]] const std::string& name() const { return entry_.name; }

 private:
  std::shared_ptr<ServicePart> make(const core::Here& here, const Parts& parts) const override;
  void serve(ServicePart& part, const Parts& parts) const override;
  void end(ServicePart& part) const override { part.set.stop(); }
  Readings readings_of(ServicePart& part) const override;

  const ServiceEntry& entry_;
  mutable std::vector<msg::Context*> contexts_;  // each core sets its own before any of them serves
};

}  // namespace sluice::app
