#include <memory>

#include "app/components/service/service.h"
#include "app/components/service/tables.h"
#include "app/prepare/preparation.h"

namespace sluice::app {

std::expected<void, Away> ServiceTables::prepare(Preparation& preparation) {
  for (const ServiceEntry& entry : service_entries()) {
    (void)preparation.plan.add(std::make_shared<ServiceComponent>(entry, preparation.cores), preparation.previous);
  }
  return {};
}

}  // namespace sluice::app
