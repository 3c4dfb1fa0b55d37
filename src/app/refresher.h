#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "api/resident/options.h"
#include "api/resident/resident.h"
#include "api/resident/since.h"
#include "base/log.h"
#include "base/reading.h"
#include "core/alarm.h"
#include "core/back_off.h"
#include "core/blocking_pool.h"
#include "core/mailbox.h"
#include "core/reactor.h"
#include "core/task.h"
#include "sql/change_probe.h"
#include "sql/database.h"

namespace sluice::app {

// Where the refreshing of a table goes on from.
struct Mark {
  std::shared_ptr<sql::ChangeProbe> probe;  // null: whether the rows have changed is only known when they are read
  std::optional<std::uint64_t> version;     // what it said before the query began whose rows there are
  Instant loaded{};                         // when the query began
  Duration took{};                          // and how long it and what was made of it took
  api::resident::Since since;               // where the changes after it begin

  // What the probe says now. Nothing: there is none, or it cannot say; then the rows are read.
  [[nodiscard]] core::Task<std::optional<std::uint64_t>> probed(core::BlockingPool& threads, core::Mailbox& mailbox);
};

// Keeps one resident table fresh: runs its query when it is time, or when it is rung, and publishes what is new. What
// cannot be loaded stays as it was, and is tried again after ever longer pauses.
class Refresher {
 public:
  static constexpr Duration first_pause = 500ms;  // after a failure, and twice as long after each further one
  static constexpr Duration longest_pause = 30s;
  // Versions beside the one that is served, which slow clients still read. Beyond it no new one is loaded.
  static constexpr std::size_t most_retired = 4;
  static constexpr Duration retired_look = 20ms;  // how often it is seen whether they are still read
  static constexpr Duration most_wait = 1s;       // for one of them to be read, until that counts as a failure
  static constexpr Duration cut_next = 1s;        // after the answers of a version were cut, if it was to no purpose

  struct Counters {
    std::uint64_t rows = 0;
    std::uint64_t bytes = 0;      // that the version takes
    std::uint64_t loads = 0;      // that succeeded, the first one included
    std::uint64_t partial = 0;    // of them, that read the changes alone
    std::uint64_t unchanged = 0;  // refreshes that found nothing new, those included that did not have to load
    std::uint64_t failures = 0;
    std::uint64_t cut = 0;  // versions whose answers were cut
    double age_s = 0;       // since the database was last asked with success
    double load_s = 0;      // how long the last load took

    [[nodiscard]] Readings readings() const;
  };

  struct Surroundings {
    core::Reactor& reactor;
    core::Mailbox& mailbox;
    core::TaskGroup& tasks;
    core::BlockingPool& threads;
    sql::Database& database;
  };
  struct Cores {
    // Each core will serve it from its next turn on; answers that have begun go on with the one before.
    std::function<core::Task<void>(const api::resident::Edition&)> publish;
    // Cuts answers that are still sent of a table that is served no more.
    std::function<core::Task<void>(const api::resident::Table*)> cut;
  };

  // All outlive it, and it outlives the tasks, where it runs until they are cancelled. It does nothing where `options`
  // say neither `every` nor `notify`.
  Refresher(const Surroundings& surroundings, const api::resident::Plan& plan,
            const api::resident::RefreshOptions& options, api::resident::Edition edition, Mark mark, Cores cores);
  Refresher(const Refresher&) = delete;

  // The database says that something has changed.
  void ring() { alarm_.ring(); }
  // The connection that listens is back, so the database may answer again: ends the pause after a failure.
  void resumed() {
    ring();
    if (edition_.failing) resumed_.ring();
  }

  // It is refreshed no more.
  void stop();
  // After stop(): nothing runs any more, and nobody reads what it has loaded.
  [[nodiscard]] bool ended() const { return stopping_ && !runs_ && retiring_.empty(); }

  [[nodiscard]] const std::string& name() const { return plan_.name; }
  [[nodiscard]] Counters counters() const;

 private:
  core::Task<void> run();
  struct Retired {
    const api::resident::Table* table;
    Instant since;
    std::uint32_t cuts = 0;  // how often its answers were
  };

  // False: it has failed.
  core::Task<bool> refresh();
  [[nodiscard]] Instant next_full() const { return full_ > Duration{} ? mark_.loaded + full_ : never; }
  [[nodiscard]] Instant next_refresh() const;
  [[nodiscard]] bool is_new(const api::resident::Table& table) const;
  void take(std::shared_ptr<const api::resident::Table> table);
  void retire(std::shared_ptr<const api::resident::Table> table);
  core::Task<void> outlast(std::shared_ptr<const api::resident::Table> table);
  [[nodiscard]] bool is_crowded() const { return retiring_.size() >= most_retired; }
  // Until it is not.
  core::Task<void> room();
  [[nodiscard]] Retired* next_to_cut();

  const Surroundings around_;
  const api::resident::Plan& plan_;
  const Cores cores_;
  TroubleLog trouble_;
  core::Alarm alarm_;
  core::Alarm resumed_;
  api::resident::Edition edition_;
  std::shared_ptr<const api::resident::Table> retired_;  // what no core has been told to drop yet, or nobody has seen
  Mark mark_;
  const Duration every_;           // 0: only when it is rung
  const Duration full_;            // 0: each load is, or none has to be
  const Duration hold_;            // 0: for ever
  std::vector<Retired> retiring_;  // versions that somebody may still read, the oldest first
  bool runs_ = false;
  bool stopping_ = false;
  bool needs_all_ = false;  // the changes alone could not be taken
  Counters counters_;
};

}  // namespace sluice::app
