#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/contains.h"
#include "base/reading.h"
#include "core/here.h"
#include "core/task.h"
#include "runtime/per_core.h"

namespace sluice::app {

class Parts;

// A table of the configuration that has state on each core, as preparing has made it. Immutable, shared by all cores. A
// reload prepares every component anew. If the result is the same, the new plan has the object of the previous one, and
// each core keeps its part.
class Component {
 public:
  Component() = default;
  Component(const Component&) = delete;
  virtual ~Component() = default;
  [[nodiscard]] virtual bool lingers() const = 0;

 private:
  friend class Parts;
  // Each part that is passed to these was made by this component, or by one that it adopts from.
  [[nodiscard]] virtual std::shared_ptr<void> make_any(const core::Here& here, const Parts& parts) const = 0;
  [[nodiscard]] virtual bool adopts_any(const Component& before) const = 0;
  virtual void serve_any(void* part, const Parts& parts) const = 0;
  virtual void retire_any(void* part) const = 0;
  virtual void drain_any(void* part) const = 0;
  virtual void end_any(void* part) const = 0;
  [[nodiscard]] virtual Readings readings_of_any(void* part) const = 0;
  [[nodiscard]] virtual core::Task<runtime::Readiness> readiness_of_any(void* part, Instant deadline) const = 0;
};

// The base of a component `C` whose parts are of type `P`. Each part belongs to one core.
template <class C, class P>
class ComponentOf : public Component {
 protected:
  // Throws if the part cannot be made. `parts`: those of the components before this one in the plan.
  [[nodiscard]] virtual std::shared_ptr<P> make(const core::Here& here, const Parts& parts) const = 0;
  // Whether the part of `before`, a component of the previous plan, becomes that of this one.
  [[nodiscard]] virtual bool adopts(const C& /*before*/) const { return false; }
  // Called when requests begin to use this component, also if its part stays. `parts`: all that are served.
  virtual void serve(P& /*part*/, const Parts& /*parts*/) const {}
  // Called when a reload has replaced the part, while answers may still use it.
  virtual void retire(P& /*part*/) const {}
  // Called at shutdown: ends answers that have no end of their own.
  virtual void drain(P& /*part*/) const {}
  // Called at shutdown, when no answer uses it any more and the loop still runs.
  virtual void end(P& /*part*/) const {}
  [[nodiscard]] virtual Readings readings_of(P& /*part*/) const { return {}; }
  // Whether a core with this part can answer requests.
  [[nodiscard]] virtual core::Task<runtime::Readiness> readiness_of(P& /*part*/, Instant /*deadline*/) const {
    co_return runtime::Readiness{};
  }
  // Whether a replaced part is kept a little longer after its last use, for requests that it cancels.
  [[nodiscard]] bool lingers() const override { return false; }

 private:
  std::shared_ptr<void> make_any(const core::Here& here, const Parts& parts) const final { return make(here, parts); }
  bool adopts_any(const Component& before) const final {
    const auto* const other = dynamic_cast<const C*>(&before);
    return other != nullptr && adopts(*other);
  }
  void serve_any(void* part, const Parts& parts) const final { serve(*static_cast<P*>(part), parts); }
  void retire_any(void* part) const final { retire(*static_cast<P*>(part)); }
  void drain_any(void* part) const final { drain(*static_cast<P*>(part)); }
  void end_any(void* part) const final { end(*static_cast<P*>(part)); }
  Readings readings_of_any(void* part) const final { return readings_of(*static_cast<P*>(part)); }
  core::Task<runtime::Readiness> readiness_of_any(void* part, Instant deadline) const final {
    return readiness_of(*static_cast<P*>(part), deadline);
  }
};

// Adds a label to all readings.
[[nodiscard]] inline Readings labelled(Readings readings, std::string_view name, std::string_view value) {
  Readings all;
  append(all, std::move(readings), label(name, value));
  return all;
}

using Components = std::vector<std::shared_ptr<Component>>;

// Adds `made`, or the component of `before` that is the same, and returns it. `before` may be null.
template <class C>
std::shared_ptr<C> add_component(Components& all, const Components* before, std::shared_ptr<C> made) {
  for (std::size_t i = 0; before != nullptr && i < before->size(); ++i) {
    auto one = std::dynamic_pointer_cast<C>((*before)[i]);
    if (one == nullptr || !one->is_same(*made)) continue;
    made = std::move(one);
    break;
  }
  if (!contains(all, made)) all.push_back(made);
  return made;
}

// The parts of one generation on one core.
class Parts {
 public:
  struct One {
    std::shared_ptr<Component> component;
    std::shared_ptr<void> object;

    [[nodiscard]] Readings readings() const { return component->readings_of_any(object.get()); }
    void retire() const { component->retire_any(object.get()); }
    [[nodiscard]] core::Task<runtime::Readiness> readiness(Instant deadline) const {
      return component->readiness_of_any(object.get(), deadline);
    }
  };

  // Makes the parts of the components in their order, or takes them from `previous`, which may be null. Throws if one
  // cannot be made.
  Parts(const Components& components, const Parts* previous, const core::Here& here);
  // Null if the component is not one of these.
  template <class C, class P>
  [[nodiscard]] std::shared_ptr<P> find(const ComponentOf<C, P>* component) const {
    return find_in(all_, component);
  }
  template <class C, class P>
  [[nodiscard]] static std::shared_ptr<P> find_in(std::span<const One> parts, const ComponentOf<C, P>* component) {
    for (const One& one : parts) {
      if (one.component.get() == component) return std::static_pointer_cast<P>(one.object);
    }
    return nullptr;
  }
  [[nodiscard]] bool has(const One& part) const { return contains(all_, part.object, &One::object); }
  void serve() const {
    for (const One& one : all_) one.component->serve_any(one.object.get(), *this);
  }
  void drain() const {
    for (const One& one : all_) one.component->drain_any(one.object.get());
  }
  void end() const {
    for (const One& one : all_) one.component->end_any(one.object.get());
  }
  [[nodiscard]] const std::vector<One>& all() const { return all_; }

 private:
  std::vector<One> all_;
};

}  // namespace sluice::app
