#include "app/plan.h"

#include <algorithm>
#include <limits>

namespace sluice::app {

Plan::RouteId Plan::add_name(std::string name) {
  auto found = std::ranges::find(names, name);
  if (found == names.end()) {
    // Those beyond are counted as requests that match none.
    if (names.size() > std::numeric_limits<RouteId>::max()) return 0;
    found = names.insert(found, std::move(name));
  }
  return static_cast<RouteId>(found - names.begin());
}

}  // namespace sluice::app
