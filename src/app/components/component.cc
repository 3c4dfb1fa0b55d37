#include "app/components/component.h"

#include <algorithm>

namespace sluice::app {

Parts::Parts(const Components& components, const Parts* previous, const core::Here& here) {
  for (const auto& component : components) {
    const One* kept = nullptr;
    if (previous != nullptr) {
      const auto stays = [&](const One& one) {
        return one.component == component || component->adopts_any(*one.component);
      };
      const auto found = std::ranges::find_if(previous->all_, stays);
      if (found != previous->all_.end()) kept = &*found;
    }
    all_.push_back({.component = component, .object = kept ? kept->object : component->make_any(here, *this)});
  }
}

}  // namespace sluice::app
