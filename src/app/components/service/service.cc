#include "app/components/service/service.h"

#include "app/components/database/database.h"
#include "app/config/difference.h"
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

namespace {

std::vector<std::pair<std::string, std::shared_ptr<sql::Database>>> databases_of(const Parts& parts) {
  std::vector<std::pair<std::string, std::shared_ptr<sql::Database>>> all;
  for (const Parts::One& one : parts.all()) {
    const auto* const database = dynamic_cast<const DatabaseComponent*>(one.component.get());
    if (database != nullptr) all.emplace_back(database->options.name.value, parts.find(database));
  }
  return all;
}

}  // namespace

bool ServiceComponent::is_same(const ServiceComponent& other) const {
  return &entry_ == &other.entry_ && config::same(options_, other.options_);
}

std::shared_ptr<ServicePart> ServiceComponent::make(const core::Here& here, const Parts& parts) const {
  auto part = std::make_shared<ServicePart>(here, options_.session_options(), contexts_);
  std::vector<services::MakeService> make{[&](msg::Context& context) {
    auto databases = std::make_unique<services::Databases>(here.reactor);
    part->databases = databases.get();
    databases->set(databases_of(parts));
    context.add(std::move(databases));
  }};
  make.insert(make.end(), entry_.make.begin(), entry_.make.end());
  part->set.set_up(make);
  return part;
}

void ServiceComponent::serve(ServicePart& part, const Parts& parts) const {
  part.databases->set(databases_of(parts));
  part.set.sessions().set_options(options_.session_options());
  part.set.start();
}

Readings ServiceComponent::readings_of(ServicePart& part) const {
  return labelled(part.set.sessions().counters().readings(), "service", entry_.name);
}

}  // namespace sluice::app
