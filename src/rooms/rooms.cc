#include "rooms/rooms.h"

#include <algorithm>
#include <functional>

#include "core/sleep.h"

namespace sluice::rooms {

// Waits in join() for the owner's answer.
struct View::Waiter {
  Waiter(View& view, core::Reactor& reactor) : of(view), alarm(reactor), next(view.waiters_) {
    if (next != nullptr) next->previous = this;
    view.waiters_ = this;
  }
  Waiter(const Waiter&) = delete;
  ~Waiter() {
    (previous != nullptr ? previous->next : of.waiters_) = next;
    if (next != nullptr) next->previous = previous;
  }
  View& of;
  core::Alarm alarm;
  Waiter* next;
  Waiter* previous = nullptr;
};

Rooms::Rooms(const core::Here& here, Shards all, std::unique_ptr<Source> source, Limits limits, std::string name)
    : here_(here),
      all_(std::move(all)),
      limits_(limits),
      doubt_alarm_(here.reactor),
      owner_(here, all_, std::move(source), limits.keep, name) {
  entry_.emplace(all_, here_.mesh.core(), *this);
  tasks_.spawn(tick());
  tasks_.spawn(judge_all());
}

Rooms::~Rooms() {
  stop();
  entry_.reset();
}

unsigned Rooms::owner_of(std::string_view key) const {
  return static_cast<unsigned>(std::hash<std::string_view>()(key) % all_.cores());
}

std::vector<std::shared_ptr<View>> Rooms::views() const {
  std::vector<std::shared_ptr<View>> all;
  for (const auto& [key, view] : views_) all.push_back(view);
  return all;
}

core::Task<std::expected<Rooms::Joined, Rooms::Refusal>> Rooms::join(Follower& follower, SharedName room,
                                                                     std::optional<Position> since, Instant deadline) {
  const std::string& key = room->key;
  auto found = views_.find(key);
  if (found == views_.end()) {
    if (ended_ || views_.size() >= limits_.rooms) {
      ++counts_.refused;
      co_return std::unexpected(Refusal::too_many);
    }
    found = views_.emplace(key, std::make_shared<View>(*this, room)).first;
  }
  const std::shared_ptr<View> view = found->second;
  struct Using {
    View& view;
    explicit Using(View& of) : view(of) { ++view.users_; }
    ~Using() {
      if (--view.users_ == 0) view.unused_since_ = view.rooms_.reactor().now();
    }
  } const use(*view);
  if (!view->ready_ || (since && !view->kept_.covers(*since))) {
    const std::uint64_t serial = ++view->asked_;
    const Want want{.core = here_.mesh.core(), .serial = serial, .since = since};
    View::Waiter waiter(*view, here_.reactor);
    (void)all_.send(here_.mesh, owner_of(key), [room, want](Rooms& rooms) { rooms.owner_.want(room, want); });
    while (view->answered_ < serial && !view->ended_) {
      if (co_await waiter.alarm.wait(deadline)) continue;
      ++counts_.refused;
      co_return std::unexpected(Refusal::away);
    }
  }
  if (view->ended_) co_return std::unexpected(Refusal::away);
  const Kept& kept = view->kept_;
  Joined joined{.position = {.epoch = kept.epoch, .offset = kept.last}};
  if (since) {
    joined.recovered = kept.covers(*since) && kept.is_whole_after(since->offset);
    ++(joined.recovered ? counts_.recovered : counts_.unrecovered);
  }
  if (joined.recovered) joined.position.offset = since->offset;
  view->add(follower, joined.position.offset);
  // The answer that let the follower join may have changed before it was there to be judged.
  if (here_.reactor.now() - doubted_at_ < admission) judge_soon();
  // The caller sends the first message itself, so the kept publications come in a later turn.
  if (joined.position.offset != kept.last) view->wake_later(follower);
  co_return joined;
}

void Rooms::end() {
  ended_ = true;
  for (const auto& [key, view] : views_) {
    view->ended_ = true;
    for (View::Waiter* one = view->waiters_; one != nullptr; one = one->next) one->alarm.ring();
    view->wake_all();
  }
}

void Rooms::set_heard(bool heard) {
  if (heard && !heard_) owner_.look();
  heard_ = heard;
}

// Looks while nothing is heard of, and forgets rooms without followers.
core::Task<void> Rooms::tick() {
  for (;;) {
    co_await core::Sleep(here_.reactor, here_.reactor.now() + look_pause);
    if (!heard_) owner_.look();
    const Instant before = here_.reactor.now() - limits_.linger;
    std::erase_if(views_, [&](const auto& one) {
      const View& view = *one.second;
      if (view.size_ != 0 || view.users_ != 0 || view.unused_since_ > before) return false;
      forget(one.first);
      return true;
    });
  }
}

// Tells the owner that this core has no view of the room.
void Rooms::forget(const std::string& key) {
  (void)all_.send(here_.mesh, owner_of(key),
                  [key, core = here_.mesh.core()](Rooms& rooms) { rooms.owner_.leave(key, core); });
}

void Rooms::doubt() {
  doubted_at_ = here_.reactor.now();
  judge_soon();
}

void Rooms::judge_soon() {
  if (judge_ == nullptr) return;
  is_doubtful_ = true;
  doubt_alarm_.ring();
}

core::Task<void> Rooms::judge_all() {
  for (;;) {
    while (!std::exchange(is_doubtful_, false)) (void)co_await doubt_alarm_.wait(never);
    const Instant next = here_.reactor.now() + judge_pause;
    for (const std::shared_ptr<View>& view : views()) {
      // Publications of a room are held back from nobody meanwhile, so a failed judgement is repeated.
      if (view->size() != 0 && !co_await judge_->judge(view)) is_doubtful_ = true;
    }
    if (here_.reactor.now() < next) co_await core::Sleep(here_.reactor, next);
  }
}

void Rooms::take(const Snapshot& snapshot) {
  const auto found = views_.find(snapshot.key);
  if (found == views_.end()) return forget(snapshot.key);
  View& view = *found->second;
  if (snapshot.serial == 0 && !view.ready_) return;  // for those who followed before
  view.kept_ = snapshot.kept;
  view.ready_ = true;
  view.answered_ = std::max(view.answered_, snapshot.serial);
  if (snapshot.rewound) ++view.era_;
  for (View::Waiter* one = view.waiters_; one != nullptr; one = one->next) one->alarm.ring();
  view.wake_all();
}

void Rooms::take(const Update& update) {
  const auto found = views_.find(update.key);
  if (found == views_.end()) return forget(update.key);
  if (!found->second->ready_) return;
  View& view = *found->second;
  view.kept_.append(*update.added, update.last);
  if (!update.added->empty()) view.wake_all();
  view.trim();
}

}  // namespace sluice::rooms
