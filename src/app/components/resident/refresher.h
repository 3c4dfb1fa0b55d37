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

// The point from which the next refresh of a table continues.
struct Mark {
  std::shared_ptr<sql::ChangeProbe> probe;  // null: a change is noticed only by reading the rows
  std::optional<std::uint64_t> version;     // the probe's version before the current rows were queried
  Instant loaded{};                         // when the query began
  Duration took{};                          // how long the query and the building of the table took
  api::resident::Since since;               // where the changes after the current rows begin

  // Returns the probe's current version; nothing if there is no probe or it fails. Then the rows must be read.
  [[nodiscard]] core::Task<std::optional<std::uint64_t>> probed(core::BlockingPool& threads, core::Mailbox& mailbox);
};

// Keeps one resident table fresh: runs its query at its interval or when ring() is called, and publishes new versions.
// If a load fails, the table stays as it was, and the load is retried with growing pauses.
class Refresher {
 public:
  static constexpr Duration first_pause = 500ms;  // after a failure; doubled after each further one
  static constexpr Duration longest_pause = 30s;
  // How many old versions slow clients may still read. At this limit no new version is loaded.
  static constexpr std::size_t most_retired = 4;
  static constexpr Duration retired_look = 20ms;  // how often to check whether they are still read
  // After waiting this long at the limit, a refresh counts as failed, but still waits.
  static constexpr Duration most_wait = 1s;
  // The least time between two cuts.
  static constexpr Duration cut_next = 1s;

  struct Counters {
    std::uint64_t rows = 0;
    std::uint64_t bytes = 0;      // size of the version
    std::uint64_t loads = 0;      // successful loads, including the first one
    std::uint64_t partial = 0;    // loads that read only the changes
    std::uint64_t unchanged = 0;  // refreshes that found nothing new, including those that did not need to load
    std::uint64_t failures = 0;
    std::uint64_t cut = 0;  // versions whose answers were cut
    double age_s = 0;       // since the last successful query of the database
    double load_s = 0;      // duration of the last load

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
    // Makes each core serve the version from its next turn on. Answers that have begun continue with the old version.
    std::function<core::Task<void>(const api::resident::TableVersion&)> publish;
    // Cuts unfinished answers from a version of the table that is no longer served.
    std::function<core::Task<void>(const api::resident::Table*)> cut;
  };

  // All arguments outlive this object. It outlives its tasks, which run until they are cancelled. It does nothing if
  // `options` have neither `every` nor `notify`.
  Refresher(const Surroundings& surroundings, const api::resident::Plan& plan,
            const api::resident::RefreshOptions& options, api::resident::TableVersion version, Mark mark, Cores cores);
  Refresher(const Refresher&) = delete;

  // The database has reported a change.
  void ring() { alarm_.ring(); }
  // The listening connection is restored, so the database may answer again: ends the pause after a failure.
  void resumed() {
    ring();
    if (version_.failing) resumed_.ring();
  }

  // Stops refreshing the table.
  void stop();
  // True after stop(), once no task runs and no core reads a version that it loaded.
  [[nodiscard]] bool ended() const { return stopping_ && !runs_ && retiring_.empty(); }

  [[nodiscard]] const std::string& name() const { return plan_.name; }
  [[nodiscard]] Counters counters() const;

 private:
  core::Task<void> run();
  struct Retired {
    const api::resident::Table* table;
    Instant since;
    std::uint32_t cuts = 0;  // how often its answers were cut
  };

  // Returns false if it failed.
  core::Task<bool> refresh();
  [[nodiscard]] Instant next_full() const { return full_ > Duration{} ? mark_.loaded + full_ : never; }
  [[nodiscard]] Instant next_refresh() const;
  [[nodiscard]] bool is_new(const api::resident::Table& table) const;
  void take(std::shared_ptr<const api::resident::Table> table);
  void retire(std::shared_ptr<const api::resident::Table> table);
  core::Task<void> outlast(std::shared_ptr<const api::resident::Table> table);
  [[nodiscard]] bool is_crowded() const { return retiring_.size() >= most_retired; }
  // Waits until there is room for another version.
  core::Task<void> room();
  [[nodiscard]] Retired* next_to_cut();

  const Surroundings around_;
  const api::resident::Plan& plan_;
  const Cores cores_;
  TroubleLog trouble_;
  core::Alarm alarm_;
  core::Alarm resumed_;
  api::resident::TableVersion version_;
  // A version to retire, which cores still have or which was never served.
  std::shared_ptr<const api::resident::Table> retired_;
  Mark mark_;
  const Duration every_;           // 0: only when ring() is called
  const Duration full_;            // 0: every load is a full one, or full loads are not needed
  const Duration hold_;            // 0: no limit
  std::vector<Retired> retiring_;  // versions that may still be read, oldest first
  bool runs_ = false;
  bool stopping_ = false;
  bool needs_all_ = false;  // the changes alone were not usable
  Counters counters_;
};

}  // namespace sluice::app
