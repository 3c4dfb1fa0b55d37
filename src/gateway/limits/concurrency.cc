#include "gateway/limits/concurrency.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"

namespace sluice::gateway::limits {

namespace {

// In a dry run nothing waits in the queue, because the policy must not delay requests.
Room room_of(const ConcurrencyOptions& options, bool dry_run) {
  return {.requests = options.requests, .queue = dry_run ? 0 : options.queue, .wait = options.wait};
}

}  // namespace

ConcurrencyPolicy::ConcurrencyPolicy(const ConcurrencyOptions& options, const std::shared_ptr<Shared>& shared,
                                     core::Reactor& reactor, core::MeshPort& port, bool dry_run)
    : room_(room_of(options, dry_run)),
      keys_(parse_key_parts(options.per.items, KeyPart::From::route), shared->secret),
      permits_(Permits::of(shared, reactor, port, room_, (options.keys + port.size() - 1) / port.size())) {
  if (permits_->user() == nullptr) begin();
}

core::Async<std::optional<http::Response>> ConcurrencyPolicy::before(http::Exchange& exchange, http::Slot& slot) {
  const Key key = keys_.make(exchange);
  auto taking = permits_->take(key);
  if (taking.ready()) return judge(taking.get(), key, slot);
  ++counters_.waited;
  return judge_later(taking.take_task(), key, slot);
}

core::Task<std::optional<http::Response>> ConcurrencyPolicy::judge_later(core::Task<Permits::Answer> taking, Key key,
                                                                         http::Slot& slot) {
  co_return judge(co_await std::move(taking), key, slot);
}

std::optional<http::Response> ConcurrencyPolicy::judge(Permits::Answer answer, const Key& key, http::Slot& slot) {
  using Answer = Permits::Answer;
  switch (answer) {
    case Answer::granted: {
      ++counters_.granted;
      ++counters_.running;
      if (free_.empty()) {
        held_.emplace_back();
        free_.reserve(held_.capacity());  // so that giving back needs no memory
        free_.push_back(static_cast<std::uint32_t>(held_.size()));
      }
      slot.value = free_.back();
      free_.pop_back();
      held_[slot.value - 1] = key;
      return std::nullopt;
    }
    case Answer::alone:
      ++counters_.granted;
      return std::nullopt;
    case Answer::refused:
      ++counters_.refused;
      break;
    case Answer::late:
      ++counters_.late;
      break;
    case Answer::full:
      ++counters_.full;
      break;
  }
  http::Response response = http::problem(503, "As many requests of this kind are being answered as may be.");
  response.fields.add_trusted("Retry-After", "1");
  return response;
}

Key ConcurrencyPolicy::take_held(http::Slot& slot) {
  const auto place = static_cast<std::uint32_t>(std::exchange(slot.value, 0));
  free_.push_back(place);
  return held_[place - 1];
}

void ConcurrencyPolicy::ended(http::Exchange&, http::Slot& slot, const http::Outcome&) {
  if (slot.value == 0) return;
  --counters_.running;
  permits_->give_back(take_held(slot));
}

Readings ConcurrencyPolicy::readings() const {
  const auto count = [](std::uint64_t number) { return static_cast<double>(number); };
  return {
      counter("sluice_concurrency_granted_total", "Requests that were let through.", count(counters_.granted)),
      counter("sluice_concurrency_waits_total", "Requests that waited for others to end, or for another core to say.",
              count(counters_.waited)),
      counter("sluice_concurrency_refused_total", "Requests that found no place in the queue: 503.",
              count(counters_.refused)),
      counter("sluice_concurrency_late_total", "Requests that have waited for too long: 503.", count(counters_.late)),
      counter("sluice_concurrency_full_total", "Requests of new keys while as many were in use as may: 503.",
              count(counters_.full)),
      gauge("sluice_concurrency_running", "Requests that are being answered.", count(counters_.running)),
      gauge("sluice_concurrency_keys", "Keys that have any.", permits_->user() == this ? count(permits_->keys()) : 0)};
}

}  // namespace sluice::gateway::limits
