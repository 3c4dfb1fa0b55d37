#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "services/service_set.h"

namespace sluice::app {

// The C++ services that this program has besides what every sluice has, under one name of `service` in the
// configuration. All services of a name share their sessions and their message ids.
struct ServiceEntry {
  std::string name;
  std::vector<services::MakeService> make;
};

// In the order of Program::add(). Complete before a configuration is read, and not changed after that.
[[nodiscard]] std::vector<ServiceEntry>& service_entries();
// Whether one has the name.
[[nodiscard]] bool has_service(std::string_view name);
// Such as "this program has \"chat\" and \"lobby\"", for errors.
[[nodiscard]] std::string describe_services();

}  // namespace sluice::app
