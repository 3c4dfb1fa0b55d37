#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "base/assert.h"

namespace sluice::http {

class AnswerFields;

// An object that exchanges need until they end, such as the handlers of one configuration. Belongs to one core.
class Pinned {
 public:
  [[nodiscard]] std::size_t pins() const { return pins_; }
  [[nodiscard]] const std::shared_ptr<AnswerFields>& answer_fields() const { return answer_fields_; }

 protected:
  // `answer_fields` are added to the responses of these exchanges; null: the server's own are added.
  // `is_logged`: whether the access log has lines for these exchanges.
  explicit Pinned(std::shared_ptr<AnswerFields> answer_fields = nullptr, bool is_logged = true)
      : answer_fields_(std::move(answer_fields)), is_logged_(is_logged) {}
  Pinned(const Pinned&) = delete;
  ~Pinned() { SLUICE_ASSERT(pins_ == 0); }

 private:
  friend class Pin;
  // Called when the last pin has been released. The object may be destroyed now.
  virtual void unpinned() = 0;

  const std::shared_ptr<AnswerFields> answer_fields_;
  const bool is_logged_;
  std::size_t pins_ = 0;
};

// Holds one Pinned object, or nothing.
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
  // The fields that are added to the responses; null: the server's own.
  [[nodiscard]] AnswerFields* answer_fields() const {
    return pinned_ != nullptr ? pinned_->answer_fields_.get() : nullptr;
  }
  [[nodiscard]] bool is_logged() const { return pinned_ == nullptr || pinned_->is_logged_; }
  // Precondition: the pin holds nothing.
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
