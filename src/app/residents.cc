#include "app/residents.h"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <utility>

#include "api/resident/load.h"
#include "app/cli.h"
#include "app/loop.h"
#include "app/service.h"
#include "base/log.h"
#include "core/alarm.h"
#include "core/back_off.h"
#include "core/sleep.h"

namespace sluice::app {
namespace {

using api::resident::Edition;
using api::resident::Loaded;
using api::resident::LoadError;
using api::resident::Table;

constexpr Duration first_pause = 500ms;  // after a failure, and twice as long after each further one
constexpr Duration longest_pause = 30s;
// Versions of one table beside the one that is served: slow clients still read them. Beyond it no new one is loaded.
constexpr std::size_t most_retired = 4;
constexpr Duration retired_look = 20ms;  // how often it is seen whether they are still read

// Nothing: there is no probe, or it cannot say; then the rows are read.
core::Task<std::optional<std::uint64_t>> version_of(sql::ChangeProbe* probe, core::BlockingPool& threads,
                                                    core::Mailbox& mailbox) {
  if (probe == nullptr) co_return std::nullopt;
  const auto version = co_await probe->version(threads, mailbox);
  if (!version) co_return std::nullopt;
  co_return *version;
}

core::Task<std::expected<Loaded, LoadError>> load_patiently(const api::resident::Plan& plan, sql::Database& database,
                                                            Loop& loop, Duration patience, Mark& mark) {
  const Instant end = loop.reactor->now() + patience;
  for (;;) {
    mark.loaded = loop.reactor->now();
    mark.version = co_await version_of(mark.probe.get(), loop.threads, loop.mailbox);
    auto loaded = co_await api::resident::load(plan, database, *loop.reactor, loop.mailbox, loop.threads);
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
    if (plan.options.residents[resident.index].refresh) {
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

// One table.
class Residents::Refresher {
 public:
  Refresher(core::Core& core, const Plan& plan, std::size_t index, std::span<Service* const> services,
            const Edition& edition, Mark mark, core::BlockingPool& threads)
      : core_(core),
        plan_(*plan.residents[index].plan),
        index_(index),
        services_(services),
        database_(services[core.index()]->database(plan.residents[index].database)),
        threads_(threads),
        trouble_("resident " + plan_.name),
        alarm_(core.reactor()),
        edition_(edition),
        mark_(std::move(mark)) {
    counters_.loads = 1;
    if (const auto& refresh = plan.options.residents[plan.residents[index].index].refresh) {
      every_ = refresh->every.value;
      if (plan_.changes || mark_.probe) full_ = refresh->full.value;
      listens_ = !refresh->notify.value.empty();
    }
    if (every_ > Duration{} || listens_) core.tasks().spawn(run());
  }

  void ring() { alarm_.ring(); }

  [[nodiscard]] Counters counters() const {
    Counters result = counters_;
    result.rows = edition_.table->size();
    result.bytes = edition_.table->memory();
    result.age_s = std::chrono::duration<double>(core_.reactor().now() - edition_.checked).count();
    return result;
  }

 private:
  core::Task<void> run() {
    core::Reactor& reactor = core_.reactor();
    std::optional<core::BackOff> back_off;
    for (;;) {
      if (back_off) {
        // Nothing is missed meanwhile: a ring waits.
        co_await back_off->wait();
      } else {
        (void)co_await alarm_.wait(next_refresh());
      }
      while (retiring_ == most_retired) co_await core::Sleep(reactor, reactor.now() + retired_look);
      const Instant begin = reactor.now();
      // Before the query begins: what is committed meanwhile is found the next time.
      const auto version = co_await version_of(mark_.probe.get(), threads_, core_.mailbox());
      const bool is_full = begin >= next_full();
      if (version && version == mark_.version && !is_full) {
        ++counters_.unchanged;
      } else {
        const bool is_partial = plan_.changes && mark_.since.known() && !is_full;
        std::expected<Loaded, LoadError> loaded = std::unexpected(LoadError{});
        if (is_partial) {
          loaded = co_await api::resident::load_changes(plan_, edition_.table, mark_.since, database_, reactor,
                                                        core_.mailbox(), threads_);
        } else {
          loaded = co_await api::resident::load(plan_, database_, reactor, core_.mailbox(), threads_);
        }
        if (!loaded) {
          ++counters_.failures;
          trouble_.met(loaded.error().text + "; what was loaded before is served");
          if (!back_off) back_off.emplace(reactor, first_pause, longest_pause);
          edition_.failing = true;
          co_await publish();
          continue;
        }
        mark_.version = version;
        if (!is_partial) mark_.loaded = begin;
        mark_.since = std::move(loaded->since);
        ++counters_.loads;
        if (is_partial) ++counters_.partial;
        counters_.load_s = std::chrono::duration<double>(reactor.now() - begin).count();
        take(std::move(loaded->table));
      }
      back_off.reset();
      trouble_.got_through();
      // What the rows were when the query began.
      edition_.checked = begin;
      edition_.failing = false;
      co_await publish();
      if (retired_) retire(std::move(retired_));
    }
  }

  [[nodiscard]] Instant next_full() const { return full_ > Duration{} ? mark_.loaded + full_ : never; }

  [[nodiscard]] Instant next_refresh() const {
    const Instant next = every_ > Duration{} ? core_.reactor().now() + every_ : never;
    return std::min(next, next_full());
  }

  // What is served from now on, once it has been published.
  void take(std::shared_ptr<const Table> table) {
    if (table == edition_.table) {
      ++counters_.unchanged;
    } else if (table->state() == edition_.table->state() && same_columns(*table, *edition_.table)) {
      ++counters_.unchanged;
      retired_ = std::move(table);
    } else {
      retired_ = std::exchange(edition_.table, std::move(table));
    }
  }

  static bool same_columns(const Table& a, const Table& b) {
    return std::ranges::equal(a.columns(), b.columns(), [](const sql::Column& one, const sql::Column& other) {
      return one.name == other.name && one.type_id == other.type_id;
    });
  }

  core::Task<void> publish() {
    for (unsigned i = 0; i < services_.size(); ++i) {
      if (i == core_.index()) {
        services_[i]->publish(index_, edition_);
        continue;
      }
      auto take = [service = services_[i], index = index_, edition = edition_] { service->publish(index, edition); };
      (void)co_await core_.mesh().post(i, std::move(take));  // a core that is ending answers nobody any more
    }
  }

  // Giving back the memory of a large table takes a while, so a thread does it, once nobody reads it any more.
  void retire(std::shared_ptr<const Table> table) {
    ++retiring_;
    core_.tasks().spawn([](Refresher& self, std::shared_ptr<const Table> old) -> core::Task<void> {
      core::Reactor& reactor = self.core_.reactor();
      while (old.use_count() > 1) co_await core::Sleep(reactor, reactor.now() + retired_look);
      --self.retiring_;
      auto work = [last = std::move(old)]() mutable {
        last.reset();
        return true;
      };
      (void)co_await self.threads_.run(self.core_.mailbox(), std::move(work));
    }(*this, std::move(table)));
  }

  core::Core& core_;
  const api::resident::Plan& plan_;
  const std::size_t index_;
  const std::span<Service* const> services_;
  sql::Database& database_;
  core::BlockingPool& threads_;
  TroubleLog trouble_;
  core::Alarm alarm_;
  Edition edition_;
  std::shared_ptr<const Table> retired_;  // what no core has been told to drop yet, or nobody has seen
  Mark mark_;
  Duration every_{};
  Duration full_{};  // 0: each load is, or none has to be
  bool listens_ = false;
  std::size_t retiring_ = 0;  // versions that somebody may still read
  Counters counters_;
};

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
    for (Refresher* refresher : refreshers_) refresher->ring();
    co_return;
  }

 private:
  const std::vector<Refresher*> refreshers_;  // by topic
  std::unique_ptr<sql::ChangeListener> listener_;
};

Residents::Residents(core::Core& core, const Plan& plan, std::span<Service* const> services, const FirstLoads& loads,
                     std::span<const std::unique_ptr<sql::SharedDatabase>> shared, core::BlockingPool& threads) {
  for (std::size_t i = 0; i < plan.residents.size(); ++i) {
    refreshers_.push_back(
        std::make_unique<Refresher>(core, plan, i, services, loads.editions[i], loads.marks[i], threads));
  }
  for (std::size_t i = 0; i < plan.options.databases.size(); ++i) {
    std::vector<sql::Topic> topics;
    std::vector<Refresher*> rung;
    for (std::size_t k = 0; k < plan.residents.size(); ++k) {
      const auto& refresh = plan.options.residents[plan.residents[k].index].refresh;
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

std::vector<Residents::Counters> Residents::counters() const {
  std::vector<Counters> all;
  for (const auto& refresher : refreshers_) all.push_back(refresher->counters());
  return all;
}

}  // namespace sluice::app
