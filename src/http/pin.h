#pragma once

#include <cstddef>
#include <utility>

#include "base/assert.h"

namespace sluice::http {

// What exchanges need until they have ended, such as the handlers of one configuration. One core's.
class Pinned {
 public:
  [[nodiscard]] std::size_t pins() const { return pins_; }

 protected:
  Pinned() = default;
  Pinned(const Pinned&) = delete;
  ~Pinned() { SLUICE_ASSERT(pins_ == 0); }

 private:
  friend class Pin;
  // The last pin has gone; this may end now.
  virtual void unpinned() = 0;

  std::size_t pins_ = 0;
};

// Holds one of them, or nothing.
class Pin {
 public:
  Pin() = default;
  explicit Pin(Pinned& pinned) : pinned_(&pinned) { ++pinned.pins_; }
  Pin(Pin&& other) noexcept : pinned_(std::exchange(other.pinned_, nullptr)) {}
  Pin& operator=(Pin&& other) noexcept {
    if (this != &other) {
      release();
      pinned_ = std::exchange(other.pinned_, nullptr);
    }
    return *this;
  }
  ~Pin() { release(); }

  [[nodiscard]] bool holds(const Pinned& pinned) const { return pinned_ == &pinned; }
  // Precondition: it holds nothing.
  void hold(Pinned& pinned) {
    SLUICE_ASSERT(pinned_ == nullptr);
    pinned_ = &pinned;
    ++pinned.pins_;
  }
  void release() {
    if (pinned_ == nullptr) return;
    Pinned& pinned = *std::exchange(pinned_, nullptr);
    if (--pinned.pins_ == 0) pinned.unpinned();
  }

 private:
  Pinned* pinned_ = nullptr;
};

}  // namespace sluice::http
