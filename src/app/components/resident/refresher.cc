#include "app/components/resident/refresher.h"

#include <algorithm>
#include <string>
#include <utility>

#include "api/resident/load.h"
#include "core/sleep.h"

namespace sluice::app {
namespace {

using api::resident::Loaded;
using api::resident::LoadError;
using api::resident::Table;
using api::resident::TableVersion;

bool same_columns(const Table& a, const Table& b) {
  return std::ranges::equal(a.columns(), b.columns(), [](const sql::Column& one, const sql::Column& other) {
    return one.name == other.name && one.type_id == other.type_id;
  });
}

}  // namespace

core::Task<std::optional<std::uint64_t>> Mark::probed(core::BlockingPool& threads, core::Mailbox& mailbox) {
  if (probe == nullptr) co_return std::nullopt;
  const auto said = co_await probe->version(threads, mailbox);
  if (!said) co_return std::nullopt;
  co_return *said;
}

Refresher::Refresher(const Surroundings& surroundings, const api::resident::Plan& plan,
                     const api::resident::RefreshOptions& options, TableVersion version, Mark mark, Cores cores)
    : around_(surroundings),
      plan_(plan),
      cores_(std::move(cores)),
      trouble_("resident " + plan.name, "answers again", "attempts failed"),
      alarm_(around_.reactor),
      resumed_(around_.reactor),
      version_(std::move(version)),
      mark_(std::move(mark)),
      every_(options.every.value),
      full_(plan.changes || mark_.probe ? options.full.value : Duration{}),
      hold_(options.hold.value) {
  counters_.loads = 1;
  counters_.load_s = std::chrono::duration<double>(mark_.took).count();
  if (every_ > Duration{} || !options.notify.value.empty()) around_.tasks.spawn(run());
}

void Refresher::stop() {
  stopping_ = true;
  alarm_.ring();
  resumed_.ring();
  if (!runs_) retire(std::move(version_.table));
}

Refresher::Counters Refresher::counters() const {
  Counters result = counters_;
  if (version_.table) {  // null after stop()
    result.rows = version_.table->size();
    result.bytes = version_.table->memory();
  }
  result.age_s = std::chrono::duration<double>(around_.reactor.now() - version_.checked).count();
  return result;
}

Readings Refresher::Counters::readings() const {
  return {
      gauge("sluice_resident_rows", "Rows of the version that is served.", rows),
      gauge("sluice_resident_bytes", "Memory of its rows and indexes.", bytes),
      gauge("sluice_resident_age_seconds", "Since the database was last asked with success.", age_s),
      gauge("sluice_resident_load_seconds", "How long the last load took.", load_s),
      counter("sluice_resident_loads_total", "Loads that succeeded.", loads),
      counter("sluice_resident_partial_total", "Loads that read only the changes.", partial),
      counter("sluice_resident_unchanged_total",
              "Refreshes that found nothing new, those included that did not have to load.", unchanged),
      counter("sluice_resident_failures_total", "Loads that failed: what was there before is served.", failures),
      counter("sluice_resident_cut_total", "Old versions whose answers were cut for the next one to be loaded.", cut),
  };
}

core::Task<void> Refresher::run() {
  core::Reactor& reactor = around_.reactor;
  std::optional<core::BackOff> back_off;
  for (runs_ = true;;) {
    if (back_off) {
      // ring() is not lost during the pause: the alarm stays set.
      if (co_await resumed_.wait(back_off->next())) back_off.reset();
    } else {
      (void)co_await alarm_.wait(next_refresh());
    }
    if (stopping_) break;
    const Instant begin = reactor.now();
    if (co_await refresh()) {
      back_off.reset();
      trouble_.got_through();
      // The rows show the state at the start of the query.
      version_.checked = begin;
      version_.failing = false;
    } else {
      ++counters_.failures;
      if (!back_off) back_off.emplace(reactor, first_pause, longest_pause);
      version_.failing = true;
    }
    co_await cores_.publish(version_);
    if (retired_) retire(std::move(retired_));
    if (stopping_) break;
  }
  runs_ = false;
  retire(std::move(version_.table));
}

core::Task<bool> Refresher::refresh() {
  core::Reactor& reactor = around_.reactor;
  const Instant begin = reactor.now();
  // Probes before the query begins, so that the next refresh finds changes committed during the query.
  const auto version = co_await mark_.probed(around_.threads, around_.mailbox);
  const bool is_full = begin >= next_full();
  if (version && version == mark_.version && !is_full) {
    ++counters_.unchanged;
    co_return true;
  }
  const bool is_partial = plan_.changes && mark_.since.known() && !is_full && !needs_all_;
  std::expected<Loaded, LoadError> loaded = std::unexpected(LoadError{});
  if (is_partial) {
    loaded = co_await api::resident::load_changes(plan_, version_.table, mark_.since, around_.database, reactor,
                                                  around_.mailbox, around_.threads);
  } else {
    loaded = co_await api::resident::load(plan_, around_.database, reactor, around_.mailbox, around_.threads);
  }
  if (!loaded) {
    trouble_.met(loaded.error().text + "; what was loaded before is served");
    // The changes alone may not fit the current table, for example if the type of a column has changed. Loading all
    // rows may then succeed.
    needs_all_ = needs_all_ || (is_partial && !loaded.error().may_pass);
    co_return false;
  }
  needs_all_ = false;
  mark_.version = version;
  if (!is_partial) mark_.loaded = begin;
  mark_.since = std::move(loaded->since);
  ++counters_.loads;
  if (is_partial) ++counters_.partial;
  counters_.load_s = std::chrono::duration<double>(reactor.now() - begin).count();
  if (is_new(*loaded->table) && is_crowded()) co_await room();
  take(std::move(loaded->table));
  co_return true;
}

Instant Refresher::next_refresh() const {
  const Instant next = every_ > Duration{} ? around_.reactor.now() + every_ : never;
  return std::min(next, next_full());
}

bool Refresher::is_new(const Table& table) const {
  const Table& served = *version_.table;
  return &table != &served && (table.state() != served.state() || !same_columns(table, served));
}

// Makes the table current; it is served once it has been published.
void Refresher::take(std::shared_ptr<const Table> table) {
  if (is_new(*table)) {
    retired_ = std::exchange(version_.table, std::move(table));
    return;
  }
  ++counters_.unchanged;
  if (table != version_.table) retired_ = std::move(table);
}

void Refresher::retire(std::shared_ptr<const Table> table) {
  retiring_.push_back({.table = table.get(), .since = around_.reactor.now()});
  around_.tasks.spawn(outlast(std::move(table)));
}

// Waits until no core reads the table any more. Freeing a large table takes time, so another thread does it.
core::Task<void> Refresher::outlast(std::shared_ptr<const Table> table) {
  core::Reactor& reactor = around_.reactor;
  while (table.use_count() > 1) co_await core::Sleep(reactor, reactor.now() + retired_look);
  const auto here = std::ranges::find(retiring_, table.get(), &Retired::table);
  if (here->cuts != 0) ++counters_.cut;
  retiring_.erase(here);
  auto work = [last = std::move(table)]() mutable {
    last.reset();
    return true;
  };
  (void)co_await around_.threads.run(around_.mailbox, std::move(work));
}

// Waits for room for the next version. Cuts clients that read a version for too long, because they would delay new data
// for all others.
core::Task<void> Refresher::room() {
  core::Reactor& reactor = around_.reactor;
  const Instant late = reactor.now() + most_wait;
  Instant cut_at = reactor.now();
  for (bool told = false; is_crowded() && !stopping_;) {
    if (Retired* const oldest = reactor.now() >= cut_at ? next_to_cut() : nullptr) {
      cut_at = reactor.now() + cut_next;
      ++oldest->cuts;
      co_await cores_.cut(oldest->table);
    }
    if (!told && reactor.now() >= late) {
      told = true;
      trouble_.met("clients that are slow hold " + std::to_string(most_retired) +
                   " versions; the next one waits until one of these has been read, or its readers are cut");
      ++counters_.failures;
      version_.failing = true;
      co_await cores_.publish(version_);
    }
    co_await core::Sleep(reactor, reactor.now() + retired_look);
  }
}

// The oldest version that has been held for too long. Prefers versions that were cut less often, so that a version
// which is still held after a cut does not block the others.
Refresher::Retired* Refresher::next_to_cut() {
  if (hold_ == Duration{}) return nullptr;
  const Instant since = around_.reactor.now() - hold_;
  Retired* found = nullptr;
  for (Retired& one : retiring_) {
    if (one.since <= since && (found == nullptr || one.cuts < found->cuts)) found = &one;
  }
  return found;
}

}  // namespace sluice::app
