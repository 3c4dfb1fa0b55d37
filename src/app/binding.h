#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "app/plan.h"
#include "core/alarm.h"
#include "http/binding.h"

namespace sluice::app {

// A route of one generation of the configuration, on one core. While the generation is served, the binding pins itself.
class Binding final : public http::Binding {
 public:
  // `generation`: of the configuration; newer ones have higher numbers. `route`: the prepared route; null for requests
  // without a route. `everywhere`, `own`, `answer_fields` and `is_logged`: as for http::Binding. `released` rings when
  // no exchange pins the binding any more, and outlives it.
  Binding(core::Alarm& released, std::uint64_t generation, Plan::RouteId id, std::shared_ptr<const Route> route,
          Filters everywhere, Filters own, std::shared_ptr<http::AnswerFields> answer_fields, bool is_logged = true)
      : http::Binding(std::move(everywhere), std::move(own), std::move(answer_fields), is_logged),
        released_(released),
        generation_(generation),
        id_(id),
        route_(std::move(route)) {}

  [[nodiscard]] http::Handler* own(std::unique_ptr<http::Handler> handler) {
    std::shared_ptr<http::Handler> shared = std::move(handler);
    http::Handler* const made = shared.get();
    keep(std::move(shared));
    return made;
  }
  [[nodiscard]] std::uint64_t generation() const { return generation_; }
  [[nodiscard]] Plan::RouteId id() const { return id_; }
  [[nodiscard]] const Route* route() const { return route_.get(); }
  // Called when its generation has been replaced.
  void retire() { serving_.release(); }

 private:
  void unpinned() override { released_.ring(); }

  core::Alarm& released_;
  const std::uint64_t generation_;
  const Plan::RouteId id_;
  const std::shared_ptr<const Route> route_;
  http::Pin serving_{*this};
};

}  // namespace sluice::app
