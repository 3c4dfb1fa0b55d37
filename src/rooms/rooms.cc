#include "rooms/rooms.h"

#include <algorithm>
#include <functional>

#include "core/sleep.h"

namespace sluice::rooms {
namespace {

constexpr std::size_t counters_a_query = 1000;
constexpr Duration first_pause = 100ms;
constexpr Duration longest_pause = 5s;

}  // namespace

struct Rooms::Owned {
  explicit Owned(SharedName of, unsigned cores) : name(std::move(of)), follows(cores, false) {}

  const SharedName name;
  Kept kept;
  std::uint64_t target = 0;   // the highest value of the counter that a notice named or a query read
  std::uint64_t counter = 0;  // the value that was read last
  std::uint64_t noticed = 0;  // the value in the last notice
  std::uint64_t filled = 0;   // from this offset on the history was read
  bool is_open = false;       // the counter was read
  bool is_stale = false;      // in stale_
  bool is_worked_on = false;
  std::uint64_t era = 0;      // grows when the counter was set back
  std::uint64_t begun = 0;    // reads of the counter
  std::uint64_t read = 0;     // the last of them that has succeeded
  std::vector<bool> follows;  // by core
  std::vector<Want> wants;
};

// All that the owner keeps of a room.
struct Rooms::Snapshot {
  std::string key;
  Kept kept;
  std::uint64_t serial = 0;  // of the Want that this answers; 0: none
  bool rewound = false;
};

// Publications that follow on those before.
struct Rooms::Update {
  std::string key;
  std::shared_ptr<const Publications> added;
  std::uint64_t last = 0;
};

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

// --- Follower

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

// --- View

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

// --- Rooms

Rooms::Rooms(const core::Here& here, Shards all, std::unique_ptr<Source> source, Limits limits, std::string name)
    : here_(here),
      all_(std::move(all)),
      source_(std::move(source)),
      limits_(limits),
      trouble_("room " + name, "the history can be read again", "reads failed"),
      stale_alarm_(here.reactor),
      doubt_alarm_(here.reactor) {
  entry_.emplace(all_, here_.mesh.core(), *this);
  tasks_.spawn(read_counters());
  tasks_.spawn(tick());
  tasks_.spawn(judge_all());
}

Rooms::~Rooms() {
  tasks_.cancel();
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
    (void)all_.send(here_.mesh, owner_of(key), [room, want](Rooms& owner) { owner.want(room, want); });
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
  if (heard && !heard_) look();
  heard_ = heard;
}

// Looks while nothing is heard of, and forgets rooms without followers.
core::Task<void> Rooms::tick() {
  for (;;) {
    co_await core::Sleep(here_.reactor, here_.reactor.now() + look_pause);
    if (!heard_) look();
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
  (void)all_.send(here_.mesh, owner_of(key), [key, core = here_.mesh.core()](Rooms& owner) { owner.leave(key, core); });
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

// --- the owner

void Rooms::want(SharedName room, Want want) {
  auto& owned = owned_[room->key];
  if (owned == nullptr) owned = std::make_shared<Owned>(std::move(room), all_.cores());
  const auto& since = want.since;
  // A client may be ahead of this process: another one has told it.
  const bool is_ahead = since && (since->epoch != owned->kept.epoch || since->offset > owned->kept.last);
  const bool needs_counter = !owned->is_open || is_ahead;
  if (needs_counter) want.needs = owned->begun + 1;
  owned->wants.push_back(want);
  if (needs_counter) make_stale(*owned);
  kick(owned);
}

void Rooms::leave(const std::string& key, unsigned core) {
  const auto found = owned_.find(key);
  if (found == owned_.end()) return;
  found->second->follows[core] = false;
  forget_unused(found->second);
}

void Rooms::forget_unused(const std::shared_ptr<Owned>& room) {
  if (room->is_worked_on || room->is_stale || !room->wants.empty() ||
      std::ranges::find(room->follows, true) != room->follows.end())
    return;
  const auto found = owned_.find(room->name->key);
  if (found != owned_.end() && found->second == room) owned_.erase(found);
}

void Rooms::advanced(const std::string& key, std::uint64_t offset) {
  const auto found = owned_.find(key);
  if (found == owned_.end()) return;
  Owned& room = *found->second;
  // Notices come in the order of the commits, so a counter that does not grow was set back.
  if (offset <= room.noticed) make_stale(room);
  room.noticed = offset;
  if (offset <= room.target) return;
  room.target = offset;
  kick(found->second);
}

void Rooms::look() {
  for (const auto& [key, room] : owned_) make_stale(*room);
}

void Rooms::make_stale(Owned& room) {
  if (room.is_stale) return;
  room.is_stale = true;
  stale_.push_back(owned_.at(room.name->key));
  stale_alarm_.ring();
}

// Reads the counters of all stale rooms with one query. Rooms that become stale meanwhile have the next one.
core::Task<void> Rooms::read_counters() {
  std::optional<core::BackOff> pause;
  for (;;) {
    while (stale_.empty()) (void)co_await stale_alarm_.wait(never);
    std::vector<std::shared_ptr<Owned>> rooms;
    const std::size_t count = std::min(stale_.size(), counters_a_query);
    rooms.assign(stale_.begin(), stale_.begin() + static_cast<std::ptrdiff_t>(count));
    stale_.erase(stale_.begin(), stale_.begin() + static_cast<std::ptrdiff_t>(count));
    std::vector<SharedName> names;
    std::vector<Known> before;
    for (const auto& room : rooms) {
      room->is_stale = false;  // from now on a commit may be missing in the answer
      ++room->begun;
      names.push_back(room->name);
      before.push_back({.last = room->kept.last, .target = room->target});
    }
    const auto counters = co_await source_->counters(names);
    if (!counters) {
      trouble_.met(counters.error().message);
      for (const auto& room : rooms) {
        if (!room->is_stale) {
          room->is_stale = true;
          stale_.push_back(room);
        }
      }
      if (!pause) pause.emplace(here_.reactor, first_pause, longest_pause);
      co_await pause->wait();
      continue;
    }
    trouble_.got_through();
    pause.reset();
    std::unordered_map<std::string_view, std::uint64_t> by_key(counters->of_rooms.begin(), counters->of_rooms.end());
    for (std::size_t i = 0; i < rooms.size(); ++i) {
      const auto found = by_key.find(rooms[i]->name->key);
      rooms[i]->read = rooms[i]->begun;
      take_counter(rooms[i], counters->epoch, found != by_key.end() ? found->second : 0, before[i]);
    }
  }
}

void Rooms::take_counter(const std::shared_ptr<Owned>& room, std::uint64_t epoch, std::uint64_t offset,
                         const Known& before) {
  room->counter = offset;
  if (!room->is_open) {
    room->is_open = true;
    room->kept.begin(epoch, offset);
    room->filled = offset;
  } else if (epoch != room->kept.epoch || offset < before.last) {
    room->kept.begin(epoch, offset);
    room->filled = offset;
    ++room->era;
    for (unsigned core = 0; core < room->follows.size(); ++core) {
      if (!room->follows[core]) continue;
      Snapshot snapshot{.key = room->name->key, .kept = room->kept, .rewound = true};
      (void)all_.send(here_.mesh, core, [snapshot = std::move(snapshot)](Rooms& rooms) { rooms.take(snapshot); });
    }
  }
  // If a notice from before the read was higher, the counter has been set back since.
  room->target = room->target == before.target ? offset : std::max(room->target, offset);
  kick(room);
}

void Rooms::kick(const std::shared_ptr<Owned>& room) {
  if (!room->is_worked_on) tasks_.spawn(work(room));
}

core::Task<void> Rooms::work(std::shared_ptr<Owned> room) {
  room->is_worked_on = true;
  core::BackOff pause(here_.reactor, first_pause, longest_pause);
  while (room->is_open) {
    const std::uint64_t reach = room->kept.last - std::min<std::uint64_t>(room->kept.last, limits_.keep.count);
    const bool needs_more =
        room->filled > reach && std::ranges::any_of(room->wants, [&](const Want& want) {
          const auto& since = want.since;
          return since && since->epoch == room->kept.epoch && since->offset < room->filled && since->offset >= reach;
        });
    bool done = true;
    if (needs_more) {
      done = co_await fill(*room, reach);
    } else if (room->target > room->kept.last) {
      done = co_await catch_up(*room);
    } else {
      break;
    }
    if (done) continue;
    co_await pause.wait();
  }
  if (room->is_open) answer(*room);
  room->is_worked_on = false;
  forget_unused(room);
}

// Reads the next publications. Returns false if the database could not be read.
core::Task<bool> Rooms::catch_up(Owned& room) {
  const std::uint64_t era = room.era;
  const std::uint64_t target = room.target;
  ++counts_.reads;
  auto read = co_await source_->after(room.name, room.kept.last);
  if (!read) {
    trouble_.met(read.error().message);
    co_return false;
  }
  trouble_.got_through();
  if (era != room.era) co_return true;
  counts_.publications += read->size();
  if (read->empty() && room.counter < target) {
    room.target = room.kept.last;
    make_stale(room);
    co_return true;
  }
  // A counter whose rows are not there: they were deleted.
  const std::uint64_t last = read->empty() ? target : read->back()->offset;
  room.target = std::max(room.target, last);
  room.kept.append(*read, last);
  room.kept.trim(limits_.keep);
  room.filled = std::max(room.filled, room.kept.from);
  tell(room, {.key = room.name->key, .added = std::make_shared<const Publications>(std::move(*read)), .last = last});
  co_return true;
}

// Reads publications before those that are kept. Returns false if the database could not be read.
core::Task<bool> Rooms::fill(Owned& room, std::uint64_t from) {
  const std::uint64_t era = room.era;
  const std::uint64_t end = room.kept.all.empty() ? room.kept.last + 1 : room.kept.all.front()->offset;
  Publications found;
  for (std::uint64_t at = from;;) {
    ++counts_.reads;
    const auto read = co_await source_->after(room.name, at);
    if (!read) {
      trouble_.met(read.error().message);
      co_return false;
    }
    trouble_.got_through();
    if (era != room.era) co_return true;
    for (const SharedPublication& one : *read) {
      if (one->offset >= end) break;
      found.push_back(one);
    }
    if (read->empty() || read->back()->offset + 1 >= end) break;
    at = read->back()->offset;
  }
  Kept filled;
  filled.begin(room.kept.epoch, from);
  filled.append(found, end - 1);
  filled.append({room.kept.all.begin(), room.kept.all.end()}, room.kept.last);
  filled.trim(limits_.keep);
  room.kept = std::move(filled);
  room.filled = from;
  co_return true;
}

// Answers those whose counter has been read since they asked.
void Rooms::answer(Owned& room) {
  std::vector<std::uint64_t> serials(all_.cores(), 0);  // by core; 0: nobody asks
  std::erase_if(room.wants, [&](const Want& want) {
    if (want.needs > room.read) return false;
    serials[want.core] = std::max(serials[want.core], want.serial);
    return true;
  });
  for (unsigned core = 0; core < serials.size(); ++core) {
    if (serials[core] == 0) continue;
    room.follows[core] = true;
    Snapshot snapshot{.key = room.name->key, .kept = room.kept, .serial = serials[core]};
    (void)all_.send(here_.mesh, core, [snapshot = std::move(snapshot)](Rooms& rooms) { rooms.take(snapshot); });
  }
}

void Rooms::tell(Owned& room, Update update) {
  for (unsigned core = 0; core < room.follows.size(); ++core) {
    if (room.follows[core]) (void)all_.send(here_.mesh, core, [update](Rooms& rooms) { rooms.take(update); });
  }
}

}  // namespace sluice::rooms
