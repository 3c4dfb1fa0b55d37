#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "base/assert.h"

namespace sluice::http {

class AnswerFields;

// What exchanges need until they have ended, such as the handlers of one configuration. One core's.
class Pinned {
 public:
  [[nodiscard]] std::size_t pins() const { return pins_; }
  [[nodiscard]] const std::shared_ptr<AnswerFields>& answer_fields() const { return answer_fields_; }

 protected:
  // `answer_fields`: of their answers; null: the server's.
  explicit Pinned(std::shared_ptr<AnswerFields> answer_fields = nullptr) : answer_fields_(std::move(answer_fields)) {}
  Pinned(const Pinned&) = delete;
  ~Pinned() { SLUICE_ASSERT(pins_ == 0); }

 private:
  friend class Pin;
  // The last pin has gone; this may end now.
  virtual void unpinned() = 0;

  const std::shared_ptr<AnswerFields> answer_fields_;
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
  // Those of the answers; null: the server's.
  [[nodiscard]] AnswerFields* answer_fields() const {
    return pinned_ != nullptr ? pinned_->answer_fields_.get() : nullptr;
  }
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
