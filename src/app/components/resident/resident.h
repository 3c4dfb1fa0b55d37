#pragma once

#include <memory>
#include <utility>

#include "api/resident/resident.h"
#include "app/components/component.h"
#include "app/components/database/database.h"
#include "app/components/resident/refresher.h"

namespace sluice::app {

// [[resident]]. `first` and `mark` are set once, before the cores get it, and cleared when they have it.
class ResidentComponent final : public ComponentOf<ResidentComponent, api::resident::Resident> {
 public:
  ResidentComponent(api::resident::ResidentOptions of, std::shared_ptr<const api::resident::Plan> made,
                    std::shared_ptr<DatabaseComponent> on)
      : options(std::move(of)), plan(std::move(made)), database(std::move(on)) {}

  [[nodiscard]] bool is_same(const ResidentComponent& other) const;
  const api::resident::ResidentOptions options;
  const std::shared_ptr<const api::resident::Plan> plan;
  const std::shared_ptr<DatabaseComponent> database;
  api::resident::TableVersion first;  // the first version
  Mark mark;

 private:
  std::shared_ptr<api::resident::Resident> make(const core::Here& here, const Parts& parts) const override;
  Readings readings_of(api::resident::Resident& resident) const override;
};

}  // namespace sluice::app
