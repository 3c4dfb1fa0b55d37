#include "api/changes/feed.h"

#include <new>
#include <utility>

#include "base/assert.h"

namespace sluice::api::changes {

Feed::~Feed() { SLUICE_ASSERT(waiters_.empty() && woken_.empty()); }

Readings Counters::readings() const {
  return {
      gauge("sluice_changes_clients", "Clients that listen for changes.", clients),
      counter("sluice_changes_sent_total", "Changes that were sent to clients.", sent),
      counter("sluice_changes_resets_total", "Clients that had to read the whole resource again.", resets),
      counter("sluice_changes_refused_total", "Clients beyond the limit.", refused),
  };
}

void Feed::add(std::shared_ptr<const Event> event) {
  SLUICE_ASSERT(event->number == last_ + 1);
  last_ = event->number;
  if (event->gap) {
    events_.clear();
    bytes_ = 0;
  }
  const std::size_t bytes = event->frame.size();
  try {
    events_.push_back(std::move(event));
    bytes_ += bytes;
  } catch (const std::bad_alloc&) {
    events_.clear();  // clients that have not seen them get a reset
    bytes_ = 0;
  }
  while (!events_.empty() && (events_.size() > limits_.events || bytes_ > limits_.bytes)) {
    bytes_ -= events_.front()->frame.size();
    events_.pop_front();
  }
}

void Feed::wake_all() {
  // Clients that begin to wait while others are woken wait for the next event.
  woken_.append_all(waiters_);
  if (!pending()) wake_some();
}

void Feed::wake_some() {
  for (std::size_t left = clients_a_turn; left != 0 && !woken_.empty(); --left) {
    static_cast<Wait&>(*woken_.next).wake();
  }
  if (!woken_.empty()) reactor_.at_next_turn(*this);
}

void Feed::drain() {
  draining_ = true;
  wake_all();
}

std::optional<std::uint64_t> Feed::resume(std::string_view id) const {
  const auto number = number_of(id, boot_);
  if (!number || (*number > last_ && *number - last_ > limits_.events) || *number + 1 < first()) return std::nullopt;
  return number;
}

void Feed::read(std::uint64_t& seen, Buffer& out, std::size_t most) {
  if (seen >= last_) return;
  if (seen + 1 < first()) return reset(seen, out, "behind");
  const std::size_t before = out.size();
  for (auto i = static_cast<std::size_t>(seen + 1 - first()); i < events_.size(); ++i) {
    const Event& event = *events_[i];
    if (out.size() != before && out.size() - before + event.frame.size() > most) return;
    out.append(event.frame);
    seen = event.number;
    ++(event.gap ? counters.resets : counters.sent);
  }
}

void Feed::reset(std::uint64_t& seen, Buffer& out, std::string_view reason) {
  seen = last_;
  ++counters.resets;
  out.append(reset_frame(event_id(boot_, last_), reason));
}

void Feed::Wait::await_suspend(std::coroutine_handle<> caller) noexcept {
  caller_ = caller;
  feed_.waiters_.append(*this);
  if (until_ != never) feed_.reactor_.timers().schedule(*this, until_);
}

void Feed::Wait::leave() noexcept {
  if (next != nullptr) unlink();
  feed_.reactor_.timers().cancel(*this);
}

}  // namespace sluice::api::changes
