#pragma once

#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "api/resident/resident.h"
#include "api/resident/since.h"
#include "app/prepare.h"
#include "core/blocking_pool.h"
#include "core/core.h"
#include "sql/change_probe.h"
#include "sql/changes.h"
#include "sql/open.h"

namespace sluice::app {

class Service;

// Where the refreshing of a table goes on from.
struct Mark {
  std::shared_ptr<sql::ChangeProbe> probe;  // null: whether the rows have changed is only known when they are read
  std::optional<std::uint64_t> version;     // what it said before the query began whose rows there are
  Instant loaded{};                         // when the query began
  api::resident::Since since;               // where the changes after it begin
};

// By index in Plan::residents.
struct FirstLoads {
  std::vector<api::resident::Edition> editions;
  std::vector<Mark> marks;
};

// The first version of each resident table, before anybody is served; waits for databases as their `start_timeout`
// says.
[[nodiscard]] std::expected<FirstLoads, Refusal> load_residents(const Plan& plan);

// Keeps resident tables fresh, on one core: runs their queries again when it is time, or when the database says so, and
// brings what is new to all cores. What cannot be loaded stays as it was.
class Residents {
 public:
  struct Counters {
    std::uint64_t rows = 0;
    std::uint64_t bytes = 0;      // that the version takes
    std::uint64_t loads = 0;      // that succeeded, the first one included
    std::uint64_t partial = 0;    // of them, that read the changes alone
    std::uint64_t unchanged = 0;  // refreshes that found nothing new, those included that did not have to load
    std::uint64_t failures = 0;
    double age_s = 0;   // since the database was last asked with success
    double load_s = 0;  // how long the last load took
  };

  // All outlive it, and it outlives the core's run(). Throws what cannot be listened for.
  Residents(core::Core& core, const Plan& plan, std::span<Service* const> services, const FirstLoads& loads,
            std::span<const std::unique_ptr<sql::SharedDatabase>> shared, core::BlockingPool& threads);
  Residents(const Residents&) = delete;
  ~Residents();

  // By index in Plan::residents.
  [[nodiscard]] std::vector<Counters> counters() const;

 private:
  class Refresher;
  class Listener;

  std::vector<std::unique_ptr<Refresher>> refreshers_;
  std::vector<std::unique_ptr<Listener>> listeners_;
};

}  // namespace sluice::app
