#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "base/reading.h"
#include "base/time.h"
#include "core/alarm.h"
#include "core/here.h"
#include "core/task.h"
#include "rooms/raised.h"
#include "rooms/rooms.h"
#include "rooms/tables.h"
#include "sql/change_probe.h"
#include "sql/changes.h"
#include "sql/open.h"
#include "sql/options.h"

namespace sluice::rooms {

// Hears of commits to one database, on one core of the process, and tells the rooms of all cores.
//
// PostgreSQL: NOTIFY names the room and its counter. Each process also sends itself a beat through the database; if it
// does not come back, although the connection is open, nothing is heard. Rooms then look at their counters themselves.
// SQLite: this process's own commits, and for those of others a look at the file every `probe_pause`. After both, the
// counters that were raised are read, once for all cores.
class Feed final : sql::ChangeSink {
 public:
  static constexpr Duration beat_pause = 5s;
  static constexpr Duration probe_pause = 200ms;

  // `options`, `shared` and `database` outlive this; `shared` may be null for PostgreSQL. `beat`: distinguishes this
  // process from others.
  Feed(const core::Here& here, std::string name, const sql::DatabaseOptions& options, sql::SharedDatabase* shared,
       std::shared_ptr<sql::Database> database, std::string beat);
  Feed(const Feed&) = delete;
  ~Feed() override;

  // Rooms of a table of the database, unless they have been added already. `members`: tables that decide who may
  // stay. Does nothing on other cores than the first.
  void add(Rooms::Shards rooms, const Published& published, const std::vector<std::string>& members);
  // The last ones are no longer told.
  void remove(const Rooms::Shards& rooms);
  void stop();

  [[nodiscard]] bool is_heard() const { return is_heard_; }
  [[nodiscard]] bool is_used() const { return listener_ != nullptr; }
  [[nodiscard]] Readings readings() const;

 private:
  struct Told {
    Rooms::Shards rooms;
    std::string table;
    std::vector<std::string> members;
    std::shared_ptr<Raised> raised;  // SQLite
    bool is_due = false;             // it must be read
    bool is_removed = false;
  };
  using Counters = std::vector<std::pair<std::string, std::uint64_t>>;

  core::Task<void> changed(std::span<const sql::Change> changes) override;
  core::Task<void> resumed() override;
  void take_notice(const Told& told, std::string_view payload);
  // Tells the owners that counters were raised.
  void tell(const Rooms::Shards& rooms, Counters raised);
  void changed_sqlite(std::span<const sql::Change> changes);
  core::Task<void> read_raised();
  core::Task<void> watch();
  core::Task<void> probe();
  core::Task<void> send_beat();
  void look_everywhere();
  void set_heard(bool heard);
  core::Task<void> settle_mesh();

  const core::Here here_;
  const std::string name_;
  const sql::DatabaseOptions& options_;
  sql::SharedDatabase* const shared_;
  const std::shared_ptr<sql::Database> database_;
  const std::string beat_;
  TroubleLog trouble_;
  TroubleLog raised_trouble_;
  std::vector<Told> told_;  // by topic
  std::unique_ptr<sql::ChangeListener> listener_;
  std::optional<sql::Statement> beat_statement_;
  bool is_heard_ = false;
  bool beat_is_due_ = false;  // a beat was sent and has not come back
  std::uint64_t lost_ = 0;    // how often nothing was heard any more
  core::Alarm raised_alarm_;  // some `is_due`
  core::TaskGroup tasks_;
};

}  // namespace sluice::rooms
