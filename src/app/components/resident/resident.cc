#include "app/components/resident/resident.h"

#include "app/config/difference.h"

namespace sluice::app {

bool ResidentComponent::is_same(const ResidentComponent& other) const {
  auto as_other = options;
  as_other.use = other.options.use;  // of its routes, not of the table
  as_other.is_public = other.options.is_public;
  const auto id_of = [](const auto& changes) { return changes ? changes->statement.id : sql::StatementId{}; };
  return database == other.database && config::same(as_other, other.options) &&
         plan->statement.id == other.plan->statement.id && id_of(plan->changes) == id_of(other.plan->changes);
}

std::shared_ptr<api::resident::Resident> ResidentComponent::make(const core::Here& here, const Parts&) const {
  return std::make_shared<api::resident::Resident>(plan, first, here.reactor, here.mailbox, here.threads, &here.mesh);
}

Readings ResidentComponent::readings_of(api::resident::Resident& resident) const {
  return labelled(resident.counters().readings(), "resident", plan->name);
}

}  // namespace sluice::app
