#include "rooms/feed.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "base/contains.h"
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
      trouble_("rooms of the database \"" + name_ + '"', "commits are heard of again", "looks failed") {}

Feed::~Feed() { stop(); }

void Feed::stop() {
  tasks_.cancel();
  listener_.reset();
}

void Feed::add(Rooms::Shards rooms, const std::string& table, const std::vector<std::string>& members) {
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
  if (index >= told_.size()) told_.resize(index + 1, Told{.rooms = rooms, .table = {}, .members = {}});
  told_[index] = {.rooms = rooms, .table = table, .members = members};
  rooms.each(here_.mesh, [heard = is_heard_](Rooms& one) { one.set_heard(heard); });
  if (!is_first) return;
  tasks_.spawn(listener_->run());
  if (options_.is_sqlite()) {
    set_heard(true);
    tasks_.spawn(probe());
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

void Feed::take_notice(const Told& told, std::string_view payload,
                       std::vector<std::vector<std::pair<std::string, std::uint64_t>>>& raised) {
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
      if (notice->name != told.table) return;
      const Rooms* const here = told.rooms.at(here_.mesh.core());
      if (here == nullptr) return;
      raised[here->owner_of(notice->key)].emplace_back(notice->key, notice->offset);
  }
}

core::Task<void> Feed::changed(std::span<const sql::Change> changes) {
  for (const sql::Change& change : changes) {
    if (told_[change.topic].is_removed) continue;
    const Told& told = told_[change.topic];
    if (options_.is_sqlite()) {
      told.rooms.each(here_.mesh, [](Rooms& rooms) { rooms.look(); });
      const auto changes_it = [&](const std::string& table) { return change.text.contains('"' + table + '"'); };
      if (std::ranges::any_of(told.members, changes_it)) {
        told.rooms.each(here_.mesh, [](Rooms& rooms) { rooms.doubt(); });
      }
      continue;
    }
    std::vector<std::vector<std::pair<std::string, std::uint64_t>>> raised(told.rooms.cores());
    take_notice(told, change.text, raised);
    for (unsigned core = 0; core < raised.size(); ++core) {
      if (raised[core].empty()) continue;
      (void)told.rooms.send(here_.mesh, core, [all = std::move(raised[core])](Rooms& rooms) {
        for (const auto& [key, offset] : all) rooms.advanced(key, offset);
      });
    }
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
  for (const Told& told : told_) {
    if (told.is_removed) continue;
    told.rooms.each(here_.mesh, [](Rooms& rooms) {
      rooms.look();
      rooms.doubt();
    });
  }
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
