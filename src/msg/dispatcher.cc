#include "msg/dispatcher.h"

#include <bit>
#include <stdexcept>
#include <string>

namespace sluice::msg {

void Dispatcher::add(std::uint32_t id, Handler handler) {
  if (id >= first_reserved_id) throw std::invalid_argument("message id " + std::to_string(id) + " is reserved");
  if (find(id) != nullptr) throw std::invalid_argument("message id " + std::to_string(id) + " has two handlers");
  std::vector<Slot> old;
  old.swap(slots_);
  handlers_.push_back(std::move(handler));
  slots_.resize(std::bit_ceil(2 * handlers_.size() + 2));
  old.push_back({.id = id, .handler = static_cast<std::uint32_t>(handlers_.size())});
  for (const Slot& slot : old) {
    if (slot.handler == 0) continue;
    std::size_t at = home(slot.id);
    while (slots_[at].handler != 0) at = (at + 1) & (slots_.size() - 1);
    slots_[at] = slot;
  }
}

core::Task<void> Dispatcher::answer_unknown(Session& session, const Frame& frame) {
  if (otherwise_) return otherwise_(session, frame);
  session.send_error(frame, ErrorCode::unknown_message, "This service has no such message.");
  return {};
}

}  // namespace sluice::msg
