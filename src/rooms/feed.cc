#include "rooms/feed.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "base/contains.h"
#include "core/back_off.h"
#include "core/sleep.h"
#include "rooms/tables.h"

namespace sluice::rooms {

Feed::Feed(const core::Here& here, std::string name, const sql::DatabaseOptions& options, sql::SharedDatabase* shared,
           std::shared_ptr<sql::Database> database, std::string beat)
    : here_(here),
      name_(std::move(name)),
      options_(options),
      shared_(shared),
      database_(std::move(database)),
      beat_(std::move(beat)),
      trouble_("rooms of the database \"" + name_ + '"', "commits are heard of again", "looks failed"),
      raised_trouble_("counters of rooms of the database \"" + name_ + '"', "they can be read again", "reads failed"),
      raised_alarm_(here_.reactor) {}

Feed::~Feed() { stop(); }

void Feed::stop() {
  tasks_.cancel();
  listener_.reset();
}

void Feed::add(Rooms::Shards rooms, const Published& published, const std::vector<std::string>& members) {
  const auto is_told = [&](const Told& told) { return !told.is_removed && told.rooms == rooms; };
  if (here_.mesh.core() != 0 || std::ranges::any_of(told_, is_told)) return;
  sql::Topic topic{.channel = std::string(channel), .tables = members};
  topic.tables.emplace_back(counters_table);
  const bool is_first = listener_ == nullptr;
  if (is_first) {
    auto opened = sql::listen_for_changes(name_, options_, here_.reactor, here_.mailbox, shared_, {}, *this);
    if (!opened) throw std::runtime_error("database \"" + name_ + "\": " + opened.error().message);
    listener_ = std::move(*opened);
  }
  const std::size_t index = listener_->add(std::move(topic));
  Told told{.rooms = rooms, .table = published.table, .members = members, .raised = {}};
  if (options_.is_sqlite()) {
    told.raised = std::make_shared<Raised>(database_, published, here_.reactor);
    told.is_due = true;
    raised_alarm_.ring();
  }
  if (index >= told_.size()) told_.resize(index + 1, told);
  told_[index] = std::move(told);
  rooms.each(here_.mesh, [heard = is_heard_](Rooms& one) { one.set_heard(heard); });
  if (!is_first) return;
  tasks_.spawn(listener_->run());
  if (options_.is_sqlite()) {
    set_heard(true);
    tasks_.spawn(probe());
    tasks_.spawn(read_raised());
  } else {
    tasks_.spawn(watch());
  }
}

void Feed::remove(const Rooms::Shards& rooms) {
  if (listener_ == nullptr) return;  // it has stopped
  for (std::size_t i = 0; i < told_.size(); ++i) {
    if (told_[i].is_removed || !(told_[i].rooms == rooms)) continue;
    told_[i].is_removed = true;
    listener_->drop(i);
  }
}

void Feed::take_notice(const Told& told, std::string_view payload) {
  const auto notice = parse_notice(payload);
  if (!notice) return;
  switch (notice->kind) {
    case Notice::Kind::beat:
      if (notice->name == beat_) beat_is_due_ = false;
      return;
    case Notice::Kind::table:
      if (notice->name == told.table) told.rooms.each(here_.mesh, [](Rooms& rooms) { rooms.look(); });
      if (contains(told.members, notice->name)) told.rooms.each(here_.mesh, [](Rooms& rooms) { rooms.doubt(); });
      return;
    case Notice::Kind::counter:
      if (notice->name == told.table) tell(told.rooms, {{std::string(notice->key), notice->offset}});
  }
}

void Feed::tell(const Rooms::Shards& rooms, Counters raised) {
  const Rooms* const here = rooms.at(here_.mesh.core());
  if (here == nullptr) return;
  std::vector<Counters> by_core(rooms.cores());
  for (auto& one : raised) by_core[here->owner_of(one.first)].push_back(std::move(one));
  for (unsigned core = 0; core < by_core.size(); ++core) {
    if (by_core[core].empty()) continue;
    (void)rooms.send(here_.mesh, core, [all = std::move(by_core[core])](Rooms& owner) {
      for (const auto& [key, offset] : all) owner.advanced(key, offset);
    });
  }
}

void Feed::changed_sqlite(std::span<const sql::Change> changes) {
  const auto has = [](const sql::Change& change, std::string_view table) {
    return change.text.contains('"' + std::string(table) + '"');
  };
  for (const sql::Change& change : changes) {
    Told& told = told_[change.topic];
    if (told.is_removed) continue;
    if (has(change, counters_table)) told.is_due = true;
    if (std::ranges::any_of(told.members, [&](const std::string& table) { return has(change, table); })) {
      told.rooms.each(here_.mesh, [](Rooms& rooms) { rooms.doubt(); });
    }
  }
  raised_alarm_.ring();
}

core::Task<void> Feed::read_raised() {
  std::optional<core::BackOff> pause;
  for (;;) {
    const auto due = std::ranges::find_if(told_, [](const Told& told) { return told.is_due && !told.is_removed; });
    if (due == told_.end()) {
      (void)co_await raised_alarm_.wait(never);
      continue;
    }
    due->is_due = false;
    const std::shared_ptr<Raised> raised = due->raised;
    const Rooms::Shards rooms = due->rooms;
    auto found = co_await raised->read();
    if (!found) {
      raised_trouble_.met(found.error().message);
      if (!pause) pause.emplace(here_.reactor, probe_pause, beat_pause);
      co_await pause->wait();
    } else {
      raised_trouble_.got_through();
      pause.reset();
      if (found->is_unsure) rooms.each(here_.mesh, [](Rooms& one) { one.look(); });
      tell(rooms, std::move(found->counters));
      co_await settle_mesh();
    }
    if (found && found->is_all) continue;
    for (Told& told : told_) {
      if (told.raised == raised) told.is_due = true;
    }
  }
}

core::Task<void> Feed::changed(std::span<const sql::Change> changes) {
  if (options_.is_sqlite()) {
    changed_sqlite(changes);
    co_return;
  }
  for (const sql::Change& change : changes) {
    const Told& told = told_[change.topic];
    if (!told.is_removed) take_notice(told, change.text);
  }
  co_await settle_mesh();
}

// The listener reads no more before the cores have room, so the database keeps what comes meanwhile.
core::Task<void> Feed::settle_mesh() {
  while (here_.mesh.waits()) co_await core::Sleep(here_.reactor, here_.reactor.now() + 1ms);
}

core::Task<void> Feed::resumed() {
  beat_is_due_ = false;
  set_heard(true);
  look_everywhere();
  co_return;
}

void Feed::look_everywhere() {
  for (Told& told : told_) {
    if (told.is_removed) continue;
    told.is_due = told.raised != nullptr;
    told.rooms.each(here_.mesh, [looks = !told.is_due](Rooms& rooms) {
      if (looks) rooms.look();
      rooms.doubt();
    });
  }
  raised_alarm_.ring();
}

void Feed::set_heard(bool heard) {
  if (heard == is_heard_) return;
  is_heard_ = heard;
  if (!heard) ++lost_;
  for (const Told& told : told_) {
    if (!told.is_removed) told.rooms.each(here_.mesh, [heard](Rooms& rooms) { rooms.set_heard(heard); });
  }
}

core::Task<void> Feed::watch() {
  for (Instant next_beat = here_.reactor.now();;) {
    co_await core::Sleep(here_.reactor, here_.reactor.now() + Rooms::look_pause);
    if (!listener_->counters().listening) {
      set_heard(false);
      continue;
    }
    if (here_.reactor.now() < next_beat) {
      if (!beat_is_due_) set_heard(true);
      continue;
    }
    if (beat_is_due_) {
      if (is_heard_) trouble_.met("the connection with LISTEN is open, but notifications do not arrive");
      set_heard(false);
    } else {
      trouble_.got_through();
    }
    next_beat = here_.reactor.now() + beat_pause;
    co_await send_beat();
  }
}

core::Task<void> Feed::send_beat() {
  const Instant deadline = here_.reactor.now() + beat_pause;
  if (!beat_statement_) {
    auto made = co_await database_->prepare("SELECT pg_notify('" + std::string(channel) + "', :beat) AS sent", {});
    if (!made) co_return;
    beat_statement_ = std::move(*made);
  }
  const std::string beat = beat_of(beat_);
  const sql::Argument argument{.text = beat};
  beat_is_due_ = true;  // it may come back before the answer
  const auto cursor = co_await database_->query(*beat_statement_, {&argument, 1}, {.deadline = deadline});
  for (bool last = false, sent = cursor.has_value(); !last;) {
    if (sent) {
      const auto block = co_await (*cursor)->next();
      sent = block.has_value();
      last = sent && block->last;
    }
    if (sent) continue;
    beat_is_due_ = false;  // the database did not take it, which says nothing about the listener
    break;
  }
}

core::Task<void> Feed::probe() {
  std::unique_ptr<sql::ChangeProbe> probe;
  std::uint64_t before = 0;
  for (;;) {
    if (probe == nullptr) {
      auto opened = sql::open_change_probe(options_);
      if (opened) probe = std::move(*opened);
    }
    if (probe != nullptr) {
      const auto version = co_await probe->version(here_.threads, here_.mailbox);
      if (!version) {
        trouble_.met(version.error().message);
      } else {
        trouble_.got_through();
        if (std::exchange(before, *version) != *version) look_everywhere();
      }
    }
    co_await core::Sleep(here_.reactor, here_.reactor.now() + probe_pause);
  }
}

Readings Feed::readings() const {
  if (told_.empty()) return {};
  const std::string name = label("database", name_);
  return {gauge("sluice_rooms_listening", "1 if the database notifies the rooms of commits, 0 if they poll.",
                is_heard_ ? 1 : 0, name),
          counter("sluice_rooms_listening_lost_total", "How often rooms had to begin to poll.", lost_, name)};
}

}  // namespace sluice::rooms
