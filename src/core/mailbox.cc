#include "core/mailbox.h"

#include <utility>

namespace sluice::core {

bool Mailbox::post(Letter& letter) noexcept {
  Letter* top = top_.load(std::memory_order_relaxed);
  do {
    if (top == &closed_) return false;
    letter.next = top;
  } while (!top_.compare_exchange_weak(top, &letter, std::memory_order_release, std::memory_order_relaxed));
  // The letter may be destroyed from here on.
  if (top == nullptr) reactor_.wake();
  return true;
}

void Mailbox::deliver() noexcept {
  Letter* const top = top_.load(std::memory_order_relaxed);
  if (top == nullptr || top == &closed_) return;
  // Only this core closes the mailbox, so the exchange returns a list of letters.
  deliver_all(top_.exchange(nullptr, std::memory_order_acquire));
}

void Mailbox::close() noexcept {
  Letter* const top = top_.exchange(&closed_, std::memory_order_acquire);
  if (top != &closed_) deliver_all(top);
}

void Mailbox::deliver_all(Letter* newest) noexcept {
  Letter* oldest = nullptr;
  while (newest != nullptr) {
    Letter* const next = std::exchange(newest->next, oldest);
    oldest = newest;
    newest = next;
  }
  while (oldest != nullptr) {
    Letter* const next = oldest->next;
    oldest->deliver(*oldest);
    oldest = next;
  }
}

}  // namespace sluice::core
