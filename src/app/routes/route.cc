#include "app/routes/route.h"

#include <utility>

#include "app/plan.h"

namespace sluice::app {

Route::Route(Plan& plan, std::vector<Shape> shapes) : shapes_(std::move(shapes)) {
  for (Shape& shape : shapes_) shape.id = plan.add_name(shape.host + shape.path);
}

}  // namespace sluice::app
