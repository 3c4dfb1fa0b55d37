#include "rooms/owner.h"

#include <algorithm>
#include <utility>

#include "rooms/rooms.h"

namespace sluice::rooms {
namespace {

constexpr std::size_t counters_a_query = 1000;
constexpr Duration first_pause = 100ms;
constexpr Duration longest_pause = 5s;

}  // namespace

struct Owner::Owned {
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
  std::vector<Waiting> wants;
};

Owner::Owner(const core::Here& here, core::Sharded<Rooms> views, std::unique_ptr<Source> source, KeepLimits limits,
             const std::string& name)
    : here_(here),
      views_(std::move(views)),
      source_(std::move(source)),
      limits_(limits),
      trouble_("room " + name, "the history can be read again", "reads failed"),
      stale_alarm_(here.reactor) {
  tasks_.spawn(read_counters());
}

template <class Message>
void Owner::send(unsigned core, Message message) {
  (void)views_.send(here_.mesh, core, [message = std::move(message)](Rooms& rooms) { rooms.take(message); });
}

void Owner::want(SharedName room, const Want& want) {
  auto& owned = owned_[room->key];
  if (owned == nullptr) owned = std::make_shared<Owned>(std::move(room), views_.cores());
  const auto& since = want.since;
  // A client may be ahead of this process: another one has told it.
  const bool is_ahead = since && (since->epoch != owned->kept.epoch || since->offset > owned->kept.last);
  const bool needs_counter = !owned->is_open || is_ahead;
  owned->wants.push_back({want, needs_counter ? owned->begun + 1 : 0});
  if (needs_counter) make_stale(owned);
  kick(owned);
}

void Owner::leave(const std::string& key, unsigned core) {
  const auto found = owned_.find(key);
  if (found == owned_.end()) return;
  found->second->follows[core] = false;
  forget_unused(found->second);
}

void Owner::forget_unused(const std::shared_ptr<Owned>& room) {
  if (room->is_worked_on || room->is_stale || !room->wants.empty() ||
      std::ranges::find(room->follows, true) != room->follows.end())
    return;
  const auto found = owned_.find(room->name->key);
  if (found != owned_.end() && found->second == room) owned_.erase(found);
}

void Owner::advanced(const std::string& key, std::uint64_t offset) {
  const auto found = owned_.find(key);
  if (found == owned_.end()) return;
  Owned& room = *found->second;  // kept by owned_
  // Notices come in the order of the commits, so a counter that does not grow was set back.
  if (offset <= room.noticed) make_stale(found->second);
  room.noticed = offset;
  if (offset <= room.target) return;
  room.target = offset;
  kick(found->second);
}

void Owner::look() {
  for (const auto& [key, room] : owned_) make_stale(room);
}

void Owner::make_stale(const std::shared_ptr<Owned>& room) {
  if (std::exchange(room->is_stale, true)) return;
  stale_.push_back(room);
  stale_alarm_.ring();
}

// Reads the counters of all stale rooms with one query. Rooms that become stale meanwhile have the next one.
core::Task<void> Owner::read_counters() {
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
      for (const auto& room : rooms) make_stale(room);
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

void Owner::take_counter(const std::shared_ptr<Owned>& room, std::uint64_t epoch, std::uint64_t offset,
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
      send(core, Snapshot{.key = room->name->key, .kept = room->kept, .rewound = true});
    }
  }
  // If a notice from before the read was higher, the counter has been set back since.
  room->target = room->target == before.target ? offset : std::max(room->target, offset);
  kick(room);
}

void Owner::kick(const std::shared_ptr<Owned>& room) {
  if (!room->is_worked_on) tasks_.spawn(work(room));
}

core::Task<void> Owner::work(std::shared_ptr<Owned> room) {
  room->is_worked_on = true;
  core::BackOff pause(here_.reactor, first_pause, longest_pause);
  while (room->is_open) {
    const std::uint64_t reach = room->kept.last - std::min<std::uint64_t>(room->kept.last, limits_.count);
    const bool needs_more =
        room->filled > reach && std::ranges::any_of(room->wants, [&](const Waiting& want) {
          const auto& since = want.since;
          return since && since->epoch == room->kept.epoch && since->offset < room->filled && since->offset >= reach;
        });
    if (needs_more) {
      co_await fill(*room, reach, pause);
    } else if (room->target > room->kept.last) {
      co_await catch_up(room, pause);
    } else {
      break;
    }
  }
  if (room->is_open) answer(*room);
  room->is_worked_on = false;
  forget_unused(room);
}

// Reads the next publications, if the database can be read.
core::Task<void> Owner::catch_up(const std::shared_ptr<Owned>& of, core::BackOff& pause) {
  Owned& room = *of;
  const std::uint64_t era = room.era;
  const std::uint64_t target = room.target;
  ++counts_.reads;
  auto read = co_await source_->after(room.name, room.kept.last);
  if (!read) {
    trouble_.met(read.error().message);
    co_return co_await pause.wait();
  }
  trouble_.got_through();
  if (era != room.era) co_return;
  counts_.publications += read->size();
  if (read->empty() && room.counter < target) {
    room.target = room.kept.last;
    co_return make_stale(of);
  }
  // A counter whose rows are not there: they were deleted.
  const std::uint64_t last = read->empty() ? target : read->back()->offset;
  room.target = std::max(room.target, last);
  room.kept.append(*read, last);
  room.kept.trim(limits_);
  room.filled = std::max(room.filled, room.kept.from);
  const Update update{
      .key = room.name->key, .added = std::make_shared<const Publications>(std::move(*read)), .last = last};
  for (unsigned core = 0; core < room.follows.size(); ++core) {
    if (room.follows[core]) send(core, update);
  }
}

// Reads publications before those that are kept, until it has them all or the counter is set back.
core::Task<void> Owner::fill(Owned& room, std::uint64_t from, core::BackOff& pause) {
  const std::uint64_t era = room.era;
  const std::uint64_t end = room.kept.all.empty() ? room.kept.last + 1 : room.kept.all.front()->offset;
  Publications found;
  for (std::uint64_t at = from;;) {
    ++counts_.reads;
    const auto read = co_await source_->after(room.name, at);
    if (!read) {
      trouble_.met(read.error().message);
      co_await pause.wait();
      if (era != room.era) co_return;
      continue;
    }
    trouble_.got_through();
    if (era != room.era) co_return;
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
  filled.trim(limits_);
  room.kept = std::move(filled);
  room.filled = from;
}

// Answers those whose counter has been read since they asked.
void Owner::answer(Owned& room) {
  std::vector<std::uint64_t> serials(views_.cores(), 0);  // by core; 0: nobody asks
  std::erase_if(room.wants, [&](const Waiting& want) {
    if (want.needs > room.read) return false;
    serials[want.core] = std::max(serials[want.core], want.serial);
    return true;
  });
  for (unsigned core = 0; core < serials.size(); ++core) {
    if (serials[core] == 0) continue;
    room.follows[core] = true;
    send(core, Snapshot{.key = room.name->key, .kept = room.kept, .serial = serials[core]});
  }
}

}  // namespace sluice::rooms
