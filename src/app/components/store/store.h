#pragma once

#include <memory>
#include <utility>

#include "app/components/component.h"
#include "base/declare.h"
#include "files/options.h"
#include "files/store.h"

namespace sluice::app {

// [store.NAME]
class StoreComponent final : public ComponentOf<StoreComponent, files::Store> {
 public:
  // `has_files`: the configuration has [[files]], and then the readings have those of a folder too.
  StoreComponent(Named<files::StoreOptions> of, bool has_files) : options(std::move(of)), has_files_(has_files) {}

  [[nodiscard]] bool is_same(const StoreComponent& other) const;
  const Named<files::StoreOptions> options;

 private:
  std::shared_ptr<files::Store> make(const core::Here& here, const Parts& parts) const override;
  bool adopts(const StoreComponent& before) const override;
  Readings readings_of(files::Store& store) const override;

  const bool has_files_;
};

}  // namespace sluice::app
