#include "app/component.h"

#include <algorithm>

namespace sluice::app {

Parts::Parts(const Components& components, const Parts* previous, Worker& worker) {
  for (const auto& component : components) {
    const One* kept = nullptr;
    if (previous != nullptr) {
      const auto stays = [&](const One& one) {
        return one.component == component || component->adopts_any(*one.component);
      };
      const auto found = std::ranges::find_if(previous->all_, stays);
      if (found != previous->all_.end()) kept = &*found;
    }
    all_.push_back({.component = component, .object = kept ? kept->object : component->make_any(worker, *this)});
  }
}

}  // namespace sluice::app
