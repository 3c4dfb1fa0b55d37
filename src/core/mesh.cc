#include "core/mesh.h"

#include <utility>

#include "base/assert.h"

namespace sluice::core {

// How sleep and wake-up are synchronized. A sender publishes (a message, room, an acknowledgement), issues a fence, and
// then checks whether the receiver may be asleep. A core that is about to sleep sets its flag, issues a fence, and then
// checks for all of these. At least one of the two sees the other's store, so no wake-up is lost.
namespace {
void fence() noexcept { std::atomic_thread_fence(std::memory_order_seq_cst); }
}  // namespace

Mesh::Mesh(unsigned count, std::size_t ring_capacity, std::uint32_t most_calls)
    : count_(count), most_calls_(most_calls), stations_(std::make_unique<Station[]>(count)) {
  SLUICE_ASSERT(count > 0 && most_calls > 0);
  links_.reserve(std::size_t{count} * count);
  for (std::size_t index = 0; index < std::size_t{count} * count; ++index) {
    links_.push_back(std::make_unique<Link>(ring_capacity));
  }
}

Mesh::~Mesh() = default;

void Mesh::wake(unsigned core) noexcept {
  Station& station = stations_[core];
  // If several cores find it asleep, only one makes the system call.
  if (station.may_sleep.load(std::memory_order_relaxed) && station.may_sleep.exchange(false)) station.reactor->wake();
}

MeshPort::MeshPort(Mesh& mesh, unsigned core, Reactor& reactor)
    : mesh_(mesh),
      core_(core),
      reactor_(reactor),
      hook_(*this),
      peers_(mesh.size(), Peer{.open = true}),
      dirty_(mesh.size()) {
  SLUICE_ASSERT(core < mesh.size() && mesh.stations_[core].reactor == nullptr);
  mesh.stations_[core].reactor = &reactor;
  for (unsigned to = 0; to < size(); ++to) mesh.link(core, to).sender_done.store(false, std::memory_order_relaxed);
}

MeshPort::~MeshPort() {
  if (ended_) return;
  refuse_new();
  cancel_served();
  end();
}

void MeshPort::drain() noexcept {
  acknowledge_endings();
  for (unsigned from = 0; from < size(); ++from) {
    Mesh::Link& link = mesh_.link(from, core_);
    const std::size_t count = link.ring.readable();
    if (count == 0) continue;
    for (std::size_t index = 0; index < count; ++index) {
      link.ring.front()->run(*this);
      link.ring.pop();
    }
    fence();
    if (link.sender_waits.load(std::memory_order_relaxed) && link.sender_waits.exchange(false)) mesh_.wake(from);
  }
  if (waiting_ == 0) return;
  for (unsigned to = 0; to < size(); ++to) push_waiting(to);
}

void MeshPort::flush() noexcept {
  fence();
  for (unsigned index = 0; index < dirty_count_; ++index) {
    peers_[dirty_[index]].dirty = false;
    mesh_.wake(dirty_[index]);
  }
  dirty_count_ = 0;
}

bool MeshPort::prepare_to_sleep() noexcept {
  std::atomic<bool>& may_sleep = mesh_.stations_[core_].may_sleep;
  may_sleep.store(true, std::memory_order_relaxed);
  if (waiting_ != 0) {
    for (unsigned to = 0; to < size(); ++to) {
      if (peers_[to].oldest != nullptr) mesh_.link(core_, to).sender_waits.store(true, std::memory_order_relaxed);
    }
  }
  fence();
  bool idle = mesh_.endings_.load(std::memory_order_relaxed) == seen_endings_ && !(refusing_ && quiet());
  for (unsigned other = 0; idle && other < size(); ++other) {
    idle = mesh_.link(other, core_).ring.readable() == 0 &&
           (peers_[other].oldest == nullptr || !mesh_.link(core_, other).ring.has_room());
  }
  if (!idle) may_sleep.store(false, std::memory_order_relaxed);
  return idle;
}

void MeshPort::wait_for_room(unsigned core, Pending& pending) noexcept {
  Peer& peer = peers_[core];
  pending.to = core;
  pending.previous = peer.newest;
  (peer.newest != nullptr ? peer.newest->next : peer.oldest) = &pending;
  peer.newest = &pending;
  pending.linked = true;
  ++peer.kept;
  ++waiting_;
}

void MeshPort::unlink(Pending& pending) noexcept {
  Peer& peer = peers_[pending.to];
  (pending.next != nullptr ? pending.next->previous : peer.newest) = pending.previous;
  (pending.previous != nullptr ? pending.previous->next : peer.oldest) = pending.next;
  pending.next = pending.previous = nullptr;
  pending.linked = false;
  --peer.kept;
  --waiting_;
}

// A waiter may continue as soon as its message is in the ring. It may then add waiters to the list or remove some.
void MeshPort::push_waiting(unsigned core) noexcept {
  Peer& peer = peers_[core];
  while (Pending* const pending = peer.oldest) {
    try {
      if (!pending->push(*pending, mesh_.link(core_, core).ring)) return;
    } catch (const std::bad_alloc&) {
      return;  // a large message could not be allocated: the next step tries again
    }
    unlink(*pending);
    mark(core);
    pending->done(*pending, true);
  }
}

void MeshPort::refuse_waiting(unsigned core) noexcept {
  while (Pending* const pending = peers_[core].oldest) {
    unlink(*pending);
    pending->done(*pending, false);
  }
}

void MeshPort::acknowledge_endings() noexcept {
  const unsigned endings = mesh_.endings_.load(std::memory_order_acquire);
  if (endings == seen_endings_) [[likely]]
    return;
  seen_endings_ = endings;
  for (unsigned other = 0; other < size(); ++other) {
    if (!peers_[other].open || !mesh_.stations_[other].ending.load(std::memory_order_acquire)) continue;
    peers_[other].open = false;
    refuse_waiting(other);
    mesh_.link(core_, other).sender_done.store(true, std::memory_order_release);
    fence();
    mesh_.wake(other);
  }
}

void MeshPort::refuse_new() noexcept {
  SLUICE_ASSERT(!refusing_);
  refusing_ = true;
  mesh_.stations_[core_].ending.store(true, std::memory_order_relaxed);
  mesh_.endings_.fetch_add(1, std::memory_order_release);
  fence();
  for (unsigned other = 0; other < size(); ++other) {
    if (other != core_) mesh_.wake(other);
  }
  acknowledge_endings();  // including this core's own
}

bool MeshPort::quiet() noexcept {
  for (unsigned from = 0; from < size(); ++from) {
    Mesh::Link& link = mesh_.link(from, core_);
    // sender_done is read first, so that messages pushed before it was set are seen.
    if (!link.sender_done.load(std::memory_order_acquire) || link.ring.readable() != 0) return false;
  }
  return true;
}

void MeshPort::end() noexcept {
  SLUICE_ASSERT(refusing_ && !ended_);
  for (unsigned to = 0; to < size(); ++to) {
    peers_[to].open = false;
    refuse_waiting(to);
    mesh_.link(core_, to).sender_done.store(true, std::memory_order_release);
  }
  flush();
  for (unsigned to = 0; to < size(); ++to) {
    if (to != core_) mesh_.wake(to);
  }
  ended_ = true;
}

void MeshPort::enlist(Call& call, unsigned core) {
  if (free_call_ == calls_.size()) {
    calls_.push_back({.next_free = static_cast<std::uint32_t>(calls_.size()) + 1});
  }
  CallSlot& slot = calls_[free_call_];
  call.ticket = free_call_;
  slot.call = &call;
  slot.to = core;
  free_call_ = slot.next_free;
  ++peers_[core].calls;
}

MeshPort::Call* MeshPort::claim(Ticket ticket) noexcept {
  CallSlot& slot = calls_[ticket];
  slot.next_free = free_call_;
  free_call_ = ticket;
  --peers_[slot.to].calls;
  return std::exchange(slot.call, nullptr);
}

}  // namespace sluice::core
