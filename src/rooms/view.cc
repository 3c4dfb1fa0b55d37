#include "rooms/view.h"

#include <utility>

#include "rooms/rooms.h"

namespace sluice::rooms {

const SharedName& Follower::room() const { return view_->name(); }

void Follower::leave() {
  if (view_ == nullptr) return;
  const std::shared_ptr<View> view = std::move(view_);
  view->remove(*this);
}

Follower::Next Follower::next() {
  const Kept& kept = view_->kept_;
  const Position last{.epoch = kept.epoch, .offset = kept.last};
  if (view_->ended_) return {.kind = Next::Kind::ended, .publication = {}, .position = last};
  const bool rewound = era_ != view_->era_;
  if (rewound || seen_ < kept.from) {
    era_ = view_->era_;
    seen_ = kept.last;
    ++view_->rooms_.counts_.behind;
    return {.kind = rewound ? Next::Kind::rewound : Next::Kind::behind, .publication = {}, .position = last};
  }
  const SharedPublication* const found = kept.after(seen_);
  if (found == nullptr) return {.kind = Next::Kind::nothing, .publication = {}, .position = last};
  seen_ = (*found)->offset;
  ++view_->rooms_.counts_.deliveries;
  return {.kind = Next::Kind::publication, .publication = *found, .position = {}};
}

View::View(Rooms& rooms, SharedName name) : TurnHook(&View::next_turn), rooms_(rooms), name_(std::move(name)) {
  ++rooms_.counts_.rooms;
}

View::~View() { --rooms_.counts_.rooms; }

void View::Ring::append(Follower& follower) {
  follower.link_ = {.next = nullptr, .previous = last};
  (last != nullptr ? last->link_.next : first) = &follower;
  last = &follower;
}

void View::Ring::remove(Follower& follower) {
  const auto& [next, previous] = follower.link_;
  (previous != nullptr ? previous->link_.next : first) = next;
  (next != nullptr ? next->link_.previous : last) = previous;
}

void View::add(Follower& follower, std::uint64_t seen) {
  follower.rooms_ = rooms_.shared_from_this();
  follower.view_ = shared_from_this();
  follower.seen_ = seen;
  follower.era_ = era_;
  follower.is_woken_ = false;
  waiting_.append(follower);
  ++size_;
  ++rooms_.counts_.followers;
}

void View::remove(Follower& follower) {
  (follower.is_woken_ ? woken_ : waiting_).remove(follower);
  --size_;
  --rooms_.counts_.followers;
  if (size_ == 0) unused_since_ = rooms_.reactor().now();
}

void View::wake_all() {
  while (waiting_.first != nullptr) {
    Follower& follower = *waiting_.first;
    waiting_.remove(follower);
    follower.is_woken_ = true;
    woken_.append(follower);
  }
  if (!pending()) wake_some();
}

void View::wake_later(Follower& follower) {
  waiting_.remove(follower);
  follower.is_woken_ = true;
  woken_.append(follower);
  if (pending()) return;
  rooms_.reactor().at_next_turn(*this);
}

// Followers that still have to read get more time, so that a large commit is no gap for them.
void View::trim() { kept_.trim(rooms_.limits_.keep, woken_.first == nullptr ? 1 : kept_while_telling); }

void View::next_turn(core::TurnHook& hook) noexcept {
  auto& self = static_cast<View&>(hook);
  const std::shared_ptr<View> keep = self.shared_from_this();
  self.wake_some();
}

void View::wake_some() {
  // The last follower may own what is left of rooms that a reload has replaced.
  const std::shared_ptr<View> keep = shared_from_this();
  const std::shared_ptr<Rooms> keep_rooms = rooms_.shared_from_this();
  for (std::size_t n = 0; n < followers_a_turn && woken_.first != nullptr; ++n) {
    Follower& follower = *woken_.first;
    woken_.remove(follower);
    follower.is_woken_ = false;
    waiting_.append(follower);
    follower.news();
  }
  if (woken_.first == nullptr) {
    trim();
  } else if (!pending()) {
    rooms_.reactor().at_next_turn(*this);
  }
}

}  // namespace sluice::rooms
