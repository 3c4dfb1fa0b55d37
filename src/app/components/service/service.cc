#include "app/components/service/service.h"

#include "app/components/service/tables.h"
#include "app/prepare/preparation.h"
#include "base/contains.h"

namespace sluice::app {

std::vector<ServiceEntry>& service_entries() {
  static std::vector<ServiceEntry> all;
  return all;
}

bool has_service(std::string_view name) { return contains(service_entries(), name, &ServiceEntry::name); }

std::string describe_services() {
  if (service_entries().empty()) return "this program has none: services are written in C++ (sluice::Program)";
  std::string text = "this program has ";
  for (const ServiceEntry& entry : service_entries()) {
    if (&entry != &service_entries().front()) text += &entry == &service_entries().back() ? " and " : ", ";
    text += '"' + entry.name + '"';
  }
  return text;
}

std::shared_ptr<ServicePart> ServiceComponent::make(const core::Here& here, const Parts&) const {
  auto part = std::make_shared<ServicePart>(here, contexts_);
  part->set.set_up(entry_.make);
  return part;
}

Readings ServiceComponent::readings_of(ServicePart& part) const {
  return labelled(part.set.sessions().counters().readings(), "service", entry_.name);
}

std::expected<void, Away> ServiceTables::prepare(Preparation& preparation) {
  for (const ServiceEntry& entry : service_entries()) {
    (void)preparation.plan.add(std::make_shared<ServiceComponent>(entry, preparation.cores), preparation.previous);
  }
  return {};
}

}  // namespace sluice::app
