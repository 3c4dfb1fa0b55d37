#include "app/residents.h"

#include <stdexcept>
#include <string>
#include <utility>

#include "api/resident/load.h"
#include "app/cli.h"
#include "app/loop.h"
#include "app/worker.h"
#include "core/sleep.h"

namespace sluice::app {
namespace {

using api::resident::Edition;
using api::resident::Loaded;
using api::resident::LoadError;
using api::resident::Table;

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

std::expected<FirstLoads, Refusal> load_residents(const Plan& plan) {
  FirstLoads loads;
  if (plan.residents.empty()) return loads;
  Loop loop;
  for (const Plan::Resident& resident : plan.residents) {
    const auto& options = plan.options.databases[resident.database];
    const auto refuse = [&](const std::string& text) {
      return std::unexpected(Refusal{.text = "sluice: resident \"" + resident.plan->name + "\": " + text + "\n",
                                     .exit_code = exit_failure});
    };
    auto database = sql::open_database(options.value, *loop.reactor, loop.mailbox, loop.threads);
    if (!database) return refuse(database.error().message);
    Mark mark;
    if (resident.refresh) {
      auto probe = sql::open_change_probe(options.value);
      if (!probe) return refuse(probe.error().message);
      mark.probe = std::move(*probe);
    }
    auto loaded = loop.run(load_patiently(*resident.plan, **database, loop, options.value.start_timeout.value, mark));
    if (!loaded) return refuse(loaded.error().text);
    mark.since = std::move(loaded->since);
    loads.editions.push_back({.table = std::move(loaded->table), .checked = mark.loaded, .failing = false});
    loads.marks.push_back(std::move(mark));
  }
  return loads;
}

// The notifications of one database.
class Residents::Listener final : public sql::ChangeSink {
 public:
  Listener(core::Core& core, const sql::DatabaseOptions& options, const std::string& name, sql::SharedDatabase* shared,
           std::vector<sql::Topic> topics, std::vector<Refresher*> refreshers)
      : refreshers_(std::move(refreshers)) {
    auto opened =
        sql::listen_for_changes(name, options, core.reactor(), core.mailbox(), shared, std::move(topics), *this);
    if (!opened) throw std::runtime_error("database \"" + name + "\": " + opened.error().message);
    listener_ = std::move(*opened);
    core.tasks().spawn(listener_->run());
  }

  core::Task<void> changed(std::span<const sql::Change> changes) override {
    for (const sql::Change& change : changes) refreshers_[change.topic]->ring();
    co_return;
  }
  // Something may have been missed.
  core::Task<void> resumed() override {
    for (Refresher* refresher : refreshers_) refresher->resumed();
    co_return;
  }

 private:
  const std::vector<Refresher*> refreshers_;  // by topic
  std::unique_ptr<sql::ChangeListener> listener_;
};

namespace {

// Tells all cores something of a table; each hears it behind what it was told before.
template <class Tell>
core::Task<void> tell(core::Core& core, std::span<Worker* const> workers, Tell tell) {
  for (unsigned i = 0; i < workers.size(); ++i) {
    if (i == core.index()) {
      tell(*workers[i]);
      continue;
    }
    auto there = [worker = workers[i], tell] { tell(*worker); };
    (void)co_await core.mesh().post(i, std::move(there));  // a core that is ending answers nobody any more
  }
}

}  // namespace

Residents::Residents(core::Core& core, const Plan& plan, std::span<Worker* const> workers, const FirstLoads& loads,
                     std::span<const std::unique_ptr<sql::SharedDatabase>> shared, core::BlockingPool& threads) {
  for (std::size_t i = 0; i < plan.residents.size(); ++i) {
    const auto& [made, database, refresh] = plan.residents[i];
    const api::resident::Plan* const handle = made.get();
    refreshers_.push_back(std::make_unique<Refresher>(
        Refresher::Surroundings{.reactor = core.reactor(),
                                .mailbox = core.mailbox(),
                                .tasks = core.tasks(),
                                .threads = threads,
                                .database = workers[core.index()]->database(database)},
        *made, refresh ? *refresh : api::resident::RefreshOptions{}, loads.editions[i], loads.marks[i],
        Refresher::Cores{
            .publish =
                [&core, workers, handle](const Edition& edition) {
                  return tell(core, workers, [handle, edition](Worker& worker) { worker.publish(handle, edition); });
                },
            .cut =
                [&core, workers, handle](const Table* table) {
                  return tell(core, workers, [handle, table](Worker& worker) { worker.cut_answers_of(handle, table); });
                },
        }));
  }
  for (std::size_t i = 0; i < plan.options.databases.size(); ++i) {
    if (plan.options.databases[i].value.is_sqlite()) continue;  // it has no NOTIFY
    std::vector<sql::Topic> topics;
    std::vector<Refresher*> rung;
    for (std::size_t k = 0; k < plan.residents.size(); ++k) {
      const auto& refresh = plan.residents[k].refresh;
      if (plan.residents[k].database != i || !refresh || refresh->notify.value.empty()) continue;
      topics.push_back({.channel = refresh->notify.value, .tables = {}});
      rung.push_back(refreshers_[k].get());
    }
    if (topics.empty()) continue;
    const auto& database = plan.options.databases[i];
    listeners_.push_back(std::make_unique<Listener>(core, database.value, database.name.value, shared[i].get(),
                                                    std::move(topics), std::move(rung)));
  }
}

Residents::~Residents() = default;

Readings Residents::readings() const {
  Readings all;
  for (const auto& one : refreshers_) append(all, one->counters().readings(), label("resident", one->name()));
  return all;
}

}  // namespace sluice::app
