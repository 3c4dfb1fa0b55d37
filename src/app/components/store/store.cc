#include "app/components/store/store.h"

#include "app/config/difference.h"

namespace sluice::app {

bool StoreComponent::is_same(const StoreComponent& other) const {
  return has_files_ == other.has_files_ && config::same(options, other.options);
}

bool StoreComponent::adopts(const StoreComponent& before) const { return config::same(options, before.options); }

std::shared_ptr<files::Store> StoreComponent::make(const core::Here& here, const Parts&) const {
  return std::make_shared<files::Store>(options.name.value, options.value, here.reactor, here.mailbox, here.threads);
}

Readings StoreComponent::readings_of(files::Store& store) const {
  Readings all;
  if (has_files_) append(all, store.files().counters().readings());
  append(all, store.counters().readings(), label("store", options.name.value));
  return all;
}

}  // namespace sluice::app
