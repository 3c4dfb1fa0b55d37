#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/log.h"
#include "core/alarm.h"
#include "core/back_off.h"
#include "core/here.h"
#include "core/sharded.h"
#include "core/task.h"
#include "rooms/publication.h"
#include "rooms/source.h"

namespace sluice::rooms {

class Rooms;

// A follower, or several, of a core want to begin.
struct Want {
  unsigned core = 0;
  std::uint64_t serial = 0;  // of the view, for the answer
  std::optional<Position> since;
};

// All that the owner keeps of a room, for a view.
struct Snapshot {
  std::string key;
  Kept kept;
  std::uint64_t serial = 0;  // of the Want that this answers; 0: none
  bool rewound = false;
};

// Publications that follow on those before, for a view.
struct Update {
  std::string key;
  std::shared_ptr<const Publications> added;
  std::uint64_t last = 0;
};

// The rooms that one core owns: reads the counters and the history, once for all followers, and once for all commits
// that have come meanwhile. Passes publications to the views on all cores, in order.
class Owner {
 public:
  struct Counts {
    std::uint64_t publications = 0;  // read
    std::uint64_t reads = 0;         // of the history
  };

  // `views`: Rooms of all cores. `name`: for the log.
  Owner(const core::Here& here, core::Sharded<Rooms> views, std::unique_ptr<Source> source, KeepLimits limits,
        const std::string& name);
  Owner(const Owner&) = delete;
  ~Owner() { stop(); }

  // Answers with a Snapshot.
  void want(SharedName room, const Want& want);
  // The core has no view of the room any more.
  void leave(const std::string& key, unsigned core);
  // The room's counter has this value, or a higher one.
  void advanced(const std::string& key, std::uint64_t offset);
  // Rooms may have publications without a notice.
  void look();
  // No database is read any more.
  void stop() { tasks_.cancel(); }

  [[nodiscard]] const Counts& counts() const { return counts_; }

 private:
  struct Owned;
  struct Waiting : Want {
    std::uint64_t needs = 0;  // which read of the counter must have succeeded
  };
  // A room when its counter is read. The counter is not less, unless it was set back.
  struct Known {
    std::uint64_t last = 0;
    std::uint64_t target = 0;
  };

  void make_stale(const std::shared_ptr<Owned>& room);
  void kick(const std::shared_ptr<Owned>& room);
  core::Task<void> read_counters();
  void take_counter(const std::shared_ptr<Owned>& room, std::uint64_t epoch, std::uint64_t offset, const Known& before);
  core::Task<void> work(std::shared_ptr<Owned> room);
  core::Task<void> catch_up(const std::shared_ptr<Owned>& room, core::BackOff& pause);
  core::Task<void> fill(Owned& room, std::uint64_t from, core::BackOff& pause);
  void answer(Owned& room);
  void forget_unused(const std::shared_ptr<Owned>& room);
  // Sends a Snapshot or an Update to the view of a core.
  template <class Message>
  void send(unsigned core, Message message);

  const core::Here here_;
  const core::Sharded<Rooms> views_;
  const std::unique_ptr<Source> source_;
  const KeepLimits limits_;
  TroubleLog trouble_;
  Counts counts_;
  std::unordered_map<std::string, std::shared_ptr<Owned>> owned_;
  std::vector<std::shared_ptr<Owned>> stale_;  // their counters must be read
  core::Alarm stale_alarm_;
  core::TaskGroup tasks_;  // first to be destroyed
};

}  // namespace sluice::rooms
