#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "api/batch/batch.h"
#include "api/openapi/document.h"
#include "app/routes/shape.h"
#include "http/exchange.h"

namespace sluice::app {

class AnswerExplainer;
class Site;
struct Plan;

// One route, or several that belong together, made ready by a kind of route. Immutable, shared by all cores. It owns
// its options, because bindings keep it alive longer than its plan.
class Route : public std::enable_shared_from_this<Route> {
 public:
  // The parts that [openapi] publishes.
  struct Described {
    std::vector<api::openapi::Resource> resources;
    std::vector<api::openapi::ResidentResource> residents;
    std::vector<api::openapi::WebSocketResource> websockets;
    std::optional<api::openapi::BatchResource> batch;
  };
  using Id = std::uint16_t;
  // Identifies a route across reloads as long as it does not change.
  struct Instance {};

  // Gives each shape the id of its name in the plan. There is at least one.
  Route(Plan& plan, std::vector<Shape> shapes);
  virtual ~Route() = default;
  [[nodiscard]] const std::vector<Shape>& shapes() const { return shapes_; }
  // Adds the handlers of all shapes to the site of one core. Throws if the route cannot be served.
  virtual void build(Site& site) const = 0;
  virtual void describe(Described&) const {}
  // Adds the routes that a batch on this database may call, and returns true, if there are any. `database`: index in
  // options.databases.
  virtual bool add_call(std::size_t /*database*/, std::vector<api::batch::Plan::Route>&) const { return false; }

  // A handler that answers from the configuration alone, as the route does; null if the route needs more than that.
  [[nodiscard]] virtual std::unique_ptr<http::Handler> answer_of_configuration() const { return nullptr; }
  // Says where the answer of a request comes from that has passed the policies. Not called for answers of the
  // configuration.
  virtual void explain(AnswerExplainer& into, const Shape& shape, http::Exchange& exchange) const = 0;

  // Routes of two plans can only be the same if they have the same id.
  [[nodiscard]] Id id() const { return shapes_.front().id; }
  // Whether clients of `before`, a route of an earlier plan, are served as before. If so, the route gets its instance.
  [[nodiscard]] virtual bool is_same(const Route& before) const = 0;
  std::shared_ptr<const Instance> instance = std::make_shared<const Instance>();  // set before the plan is served

 private:
  std::vector<Shape> shapes_;
};

}  // namespace sluice::app
