#pragma once

#include <cstddef>
#include <string_view>
#include <utility>

#include "core/next_turn.h"
#include "http/h1/connection.h"

namespace sluice::http::h1 {

// Sends a copy of `bytes` from the end of this turn of the loop on, while the connection waits for something else: the
// head of a response while its body has nothing to send, or an error while the rest of a request's body arrives.
class Connection::EarlyBytes final : core::TurnHook, core::Waiter {
 public:
  EarlyBytes(net::Stream& stream, std::string_view bytes)
      : TurnHook(&EarlyBytes::turn_ended), Waiter(&EarlyBytes::writable), stream_(stream), size_(bytes.size()) {
    if (bytes.empty()) return;
    unsent_.append(bytes);
    stream_.reactor().at_turn_end(*this);
  }
  ~EarlyBytes() { stop_waiting(); }

  // Sends no more. Returns how many bytes have been sent.
  [[nodiscard]] std::size_t end() noexcept {
    stop_waiting();
    return size_ - unsent_.size();
  }

 private:
  static void turn_ended(core::TurnHook& hook) noexcept { static_cast<EarlyBytes&>(hook).send(); }
  static void writable(core::Waiter& waiter) noexcept { static_cast<EarlyBytes&>(waiter).send(); }
  // An error shows in the next write.
  void send() noexcept {
    stop_waiting();
    if (stream_.is_cut()) return;
    const core::Io io = stream_.try_write(unsent_);
    if (!io.would_block() && (!io.ok() || (unsent_.empty() && !stream_.has_unsent()))) return;
    stream_.handle().writer = this;
    waits_ = true;
  }
  void stop_waiting() noexcept {
    if (std::exchange(waits_, false)) stream_.handle().writer = nullptr;
  }

  net::Stream& stream_;
  const std::size_t size_;
  Buffer unsent_;
  bool waits_ = false;
};

}  // namespace sluice::http::h1
