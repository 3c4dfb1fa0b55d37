#pragma once

#include <coroutine>

#include "base/assert.h"

namespace sluice::core {

// A FIFO queue of waiting coroutines. It must outlive them.
class WaitingLine {
 public:
  WaitingLine() = default;
  WaitingLine(const WaitingLine&) = delete;
  ~WaitingLine() { SLUICE_ASSERT(empty()); }

  [[nodiscard]] bool empty() const { return first_ == nullptr; }
  // Removes the first coroutine and returns it; the caller resumes it. Precondition: the line is not empty.
  [[nodiscard]] std::coroutine_handle<> take_first() {
    Place& first = *first_;
    first.leave();
    return first.caller_;
  }

  // A part of an awaiter. Destroying it removes the coroutine from the line.
  class Place {
   public:
    Place() = default;
    Place(const Place&) = delete;
    ~Place() {
      if (line_ != nullptr) leave();
    }
    void join(WaitingLine& line, std::coroutine_handle<> caller) noexcept {
      line_ = &line;
      caller_ = caller;
      previous_ = line.last_;
      (line.last_ != nullptr ? line.last_->next_ : line.first_) = this;
      line.last_ = this;
    }

   private:
    friend class WaitingLine;
    void leave() noexcept {
      (next_ != nullptr ? next_->previous_ : line_->last_) = previous_;
      (previous_ != nullptr ? previous_->next_ : line_->first_) = next_;
      next_ = previous_ = nullptr;
      line_ = nullptr;
    }

    WaitingLine* line_ = nullptr;  // set while it waits
    std::coroutine_handle<> caller_;
    Place* next_ = nullptr;
    Place* previous_ = nullptr;
  };

 private:
  Place* first_ = nullptr;
  Place* last_ = nullptr;
};

}  // namespace sluice::core
