#include "app/components/resident/residents.h"

#include <algorithm>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "api/resident/load.h"
#include "app/commands/exit_code.h"
#include "app/prepare/loop.h"
#include "app/worker.h"
#include "base/contains.h"
#include "base/log.h"
#include "core/sleep.h"
#include "runtime/metrics.h"

namespace sluice::app {
namespace {

using api::resident::Loaded;
using api::resident::LoadError;
using api::resident::Table;
using api::resident::TableVersion;

core::Task<std::expected<Loaded, LoadError>> load_patiently(const api::resident::Plan& plan, sql::Database& database,
                                                            Loop& loop, Duration patience, Mark& mark) {
  const Instant end = loop.reactor->now() + patience;
  for (;;) {
    mark.loaded = loop.reactor->now();
    mark.version = co_await mark.probed(loop.threads, loop.mailbox);
    auto loaded = co_await api::resident::load(plan, database, *loop.reactor, loop.mailbox, loop.threads);
    mark.took = loop.reactor->now() - mark.loaded;
    if (loaded || !loaded.error().may_pass || loop.reactor->now() + 200ms > end) co_return loaded;
    co_await core::Sleep(*loop.reactor, loop.reactor->now() + 200ms);
  }
}

}  // namespace

std::expected<void, Refusal> load_residents(const Plan& plan, const Plan* before, bool patient) {
  std::optional<Loop> loop;
  for (const auto& resident : plan.all<Plan::Resident>()) {
    if (before != nullptr && before->has(resident.get())) continue;
    const auto refuse = [&](const std::string& text) {
      const Position at = resident->options.query.position;
      return std::unexpected(Refusal{.text = fmt::format("{}: error: resident \"{}\": {}\n",
                                                         plan.options.sources.place(at), resident->plan->name, text),
                                     .exit_code = exit_failure});
    };
    if (!loop) loop.emplace();
    const auto& options = plan.options.databases[plan.options.index_of_database(resident->options.database.value)];
    auto database = sql::open_database(options.value, *loop->reactor, loop->mailbox, loop->threads);
    if (!database) return refuse(database.error().message);
    Mark mark;
    if (resident->options.refresh) {
      auto probe = sql::open_change_probe(options.value);
      if (!probe) return refuse(probe.error().message);
      mark.probe = std::move(*probe);
    }
    const Duration patience = patient ? options.value.start_timeout.value : 0s;
    auto loaded = loop->run(load_patiently(*resident->plan, **database, *loop, patience, mark));
    if (!loaded) return refuse(loaded.error().text);
    mark.since = std::move(loaded->since);
    resident->first = {.table = std::move(loaded->table), .checked = mark.loaded, .failing = false};
    resident->mark = std::move(mark);
  }
  return {};
}

// A table that is kept fresh, with the objects that its refresher uses.
struct Residents::Kept {
  std::shared_ptr<Plan::Resident> resident;
  std::shared_ptr<sql::Database> database;  // of this core
  std::unique_ptr<Refresher> refresher;

  [[nodiscard]] Readings readings() const {
    Readings all;
    append(all, refresher->counters().readings(), label("resident", refresher->name()));
    return all;
  }
};

// Listens for the notifications of one database.
class Residents::Listener final : public sql::ChangeSink {
 public:
  Listener(core::Core& core, std::shared_ptr<Plan::Database> database) : database_(std::move(database)) {
    const auto& [name_at, options] = database_->options;
    const std::string& name = name_at.value;
    auto opened =
        sql::listen_for_changes(name, options, core.reactor(), core.mailbox(), database_->shared.get(), {}, *this);
    if (!opened) throw std::runtime_error("database \"" + name + "\": " + opened.error().message);
    listener_ = std::move(*opened);
  }

  [[nodiscard]] const Plan::Database* database() const { return database_.get(); }
  void join(Refresher& refresher, const std::string& channel) {
    const std::size_t index = listener_->add({.channel = channel, .tables = {}});
    if (index >= refreshers_.size()) refreshers_.resize(index + 1);
    refreshers_[index] = &refresher;
    joined_.push_back(index);
    if (running_.empty()) running_.spawn(listener_->run());
    if (settling_.empty()) settling_.spawn(settle());
  }
  // Returns false if no refresher is left.
  bool leave(const Refresher& refresher) {
    for (std::size_t i = 0; i < refreshers_.size(); ++i) {
      if (refreshers_[i] != &refresher) continue;
      listener_->drop(i);
      refreshers_[i] = nullptr;
    }
    return std::ranges::any_of(refreshers_, [](const Refresher* one) { return one != nullptr; });
  }

  core::Task<void> changed(std::span<const sql::Change> changes) override {
    for (const sql::Change& change : changes) {
      if (refreshers_[change.topic] != nullptr) refreshers_[change.topic]->ring();
    }
    co_return;
  }
  // Notifications may have been missed.
  core::Task<void> resumed() override {
    for (Refresher* refresher : refreshers_) {
      if (refresher != nullptr) refresher->resumed();
    }
    co_return;
  }

 private:
  // If the listener was already listening, it may have missed notifications for a topic that joins now, so the
  // refresher of that topic is rung.
  core::Task<void> settle() {
    while (!joined_.empty()) {
      const auto joined = std::exchange(joined_, {});
      const bool listens = listener_->counters().listening;
      co_await listener_->settle();
      for (const std::size_t topic : joined) {
        if (refreshers_[topic] != nullptr && listens) refreshers_[topic]->ring();
      }
    }
  }

  const std::shared_ptr<Plan::Database> database_;
  std::vector<Refresher*> refreshers_;  // by topic; null: dropped
  std::unique_ptr<sql::ChangeListener> listener_;
  std::vector<std::size_t> joined_;  // topics that settle() has not seen yet
  core::TaskGroup running_;
  core::TaskGroup settling_;
};

namespace {

// Sends a task for a table to all cores, one core after another, so that each gets its tasks in order. No deadline: the
// table's refresher waits for it, so a core is sent one task of a table at a time, and a core that missed one would
// answer from an old version.
template <class Tell>
core::Task<void> tell(core::Core& core, std::span<Worker* const> workers, Tell tell) {
  for (unsigned i = 0; i < workers.size(); ++i) {
    auto there = [worker = workers[i], tell] {
      try {
        tell(*worker);
      } catch (const std::bad_alloc&) {
        log_error("a core had no memory to take a resident table's new version: it answers from the one before");
      }
    };
    if (i == core.index()) {
      there();
      continue;
    }
    // Fails only if that core is ending. It answers no more requests.
    (void)co_await core.mesh().post(i, never, std::move(there));
  }
}

}  // namespace

Residents::Residents(core::Core& core, std::span<Worker* const> workers, core::BlockingPool& threads)
    : core_(core), workers_(workers), threads_(threads) {}

void Residents::follow(const Plan& plan) {
  for (std::size_t i = 0; i < kept_.size();) {
    if (plan.has(kept_[i]->resident.get())) {
      ++i;
      continue;
    }
    std::erase_if(listeners_, [&](const auto& one) { return !one->leave(*kept_[i]->refresher); });
    core_.tasks().spawn(end(std::move(kept_[i])));
    kept_.erase(kept_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  for (const auto& resident : plan.all<Plan::Resident>()) {
    if (contains(kept_, resident, &Kept::resident)) continue;
    const Plan::Resident* const handle = resident.get();
    const auto& refresh = resident->options.refresh;
    auto kept = std::make_unique<Kept>();
    kept->resident = resident;
    kept->database = workers_[core_.index()]->find(resident->database.get());
    kept->refresher = std::make_unique<Refresher>(
        Refresher::Surroundings{.reactor = core_.reactor(),
                                .mailbox = core_.mailbox(),
                                .tasks = core_.tasks(),
                                .threads = threads_,
                                .database = *kept->database},
        *resident->plan, refresh ? *refresh : api::resident::RefreshOptions{}, resident->first, resident->mark,
        Refresher::Cores{
            .publish =
                [this, handle](const TableVersion& version) {
                  return tell(core_, workers_, [handle, version](Worker& worker) {
                    // A reload may have removed the table.
                    if (const auto part = worker.find(handle)) part->publish(version);
                  });
                },
            .cut =
                [this, handle](const Table* table) {
                  return tell(core_, workers_, [handle, table](Worker& worker) {
                    if (const auto part = worker.find(handle)) {
                      part->each_owner_of(table, [&](const void* owner) { worker.cut_answers_of(owner); });
                    }
                  });
                },
        });
    kept_.push_back(std::move(kept));
    if (!refresh || refresh->notify.value.empty()) continue;
    // SQLite has no NOTIFY.
    if (resident->database->options.value.is_sqlite()) continue;
    auto found = std::ranges::find(listeners_, resident->database.get(), &Listener::database);
    if (found == listeners_.end()) {
      listeners_.push_back(std::make_unique<Listener>(core_, resident->database));
      found = listeners_.end() - 1;
    }
    (*found)->join(*kept_.back()->refresher, refresh->notify.value);
  }
}

// Destroys the refresher of a table that is no longer served, once no core reads the table any more.
core::Task<void> Residents::end(std::unique_ptr<Kept> kept) {
  ending_.push_back(kept.get());
  kept->refresher->stop();
  while (!kept->refresher->ended()) {
    co_await core::Sleep(core_.reactor(), core_.reactor().now() + Refresher::retired_look);
  }
  std::erase(ending_, kept.get());
  runtime::keep_counters(ended_, kept->readings());
}

Residents::~Residents() = default;

Readings Residents::readings() const {
  Readings all = ended_;
  for (const Kept* kept : ending_) runtime::keep_counters(all, kept->readings());
  for (const auto& kept : kept_) append(all, kept->readings());
  return all;
}

}  // namespace sluice::app
