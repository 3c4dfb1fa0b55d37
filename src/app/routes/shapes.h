#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "app/config/complain.h"
#include "app/options.h"
#include "app/routes/shape.h"

namespace sluice::app {

// The pattern of everything below a folder.
[[nodiscard]] std::string pattern_below(std::string_view folder);

// Sets the kind and the pattern. Returns false if the path is invalid, which the checks of the kind report.
[[nodiscard]] bool complete(Shape& shape, std::string_view kind);

// The shapes of one route, without those whose path is invalid. `table`: one of the kind's tables.
template <class Kind>
[[nodiscard]] std::vector<Shape> shapes_of(const auto& table) {
  std::vector<Shape> shapes = Kind::shapes(table);
  std::erase_if(shapes, [](Shape& shape) { return !complete(shape, Kind::name); });
  for (Shape& shape : shapes) shape.is_logged = table.access_log;
  return shapes;
}

// The shapes of all routes, without those whose path is invalid.
[[nodiscard]] std::vector<Shape> shapes_of(const Options& options);

// Reports shapes of the same path that are for the same requests.
void check_shapes(const std::vector<Shape>& shapes, const config::FileNames& files, const config::Complain& complain);

// Warns of routes that pass requests on without a policy that checks the client, although a neighbour has one: a route
// with the same path for other methods or conditions, the route of `/a` beside the path `/a/{rest...}`, a catch-all
// route that takes `/a/` to the same upstream as the route of `/a`, or a route that reaches the same path of the same
// upstream by another prefix or another host.
[[nodiscard]] std::vector<std::string> warn_of_guards_beside(const Options& options);

// Warns of endpoints that write without a policy that checks the client, although another endpoint that writes has one.
// `public = true` says that it is meant.
[[nodiscard]] std::vector<std::string> warn_of_open_writes(const Options& options);

}  // namespace sluice::app
