#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/reading.h"
#include "base/time.h"
#include "core/alarm.h"
#include "core/here.h"
#include "core/sharded.h"
#include "core/task.h"
#include "rooms/owner.h"
#include "rooms/publication.h"
#include "rooms/source.h"
#include "rooms/view.h"

// The rooms of one [[room]] on all cores.
//
// A room has an owner core, by the hash of its key, and a view on each core where it has followers. The owner alone
// reads the database: once for all followers, and once for all commits that have come meanwhile. It passes what it has
// read to the views as shared values, in order. A follower has no queue of its own: it reads the view at its own pace.
namespace sluice::rooms {

struct Limits {
  KeepLimits keep;
  std::size_t rooms = 10'000;  // with followers, on each core
  Duration linger = 30s;       // how long a room without followers is kept
};

// One core's part.
class Rooms : public std::enable_shared_from_this<Rooms> {
 public:
  struct Counts {
    std::uint64_t rooms = 0;      // gauge: views
    std::uint64_t followers = 0;  // gauge
    std::uint64_t deliveries = 0;
    std::uint64_t behind = 0;       // followers that have missed publications
    std::uint64_t recovered = 0;    // joined, and got everything after their position
    std::uint64_t unrecovered = 0;  // had a position, and did not
    std::uint64_t refused = 0;      // too many rooms, or the database was away
  };
  using Shards = core::Sharded<Rooms>;

  // `all`: the parts of all cores. `name`: for the log.
  Rooms(const core::Here& here, Shards all, std::unique_ptr<Source> source, Limits limits, std::string name);
  Rooms(const Rooms&) = delete;
  ~Rooms();

  struct Joined {
    Position position;  // publications after it follow
    bool recovered = false;
  };
  enum class Refusal : std::uint8_t { too_many, away };
  // Lets the follower join the room, after `since` if that is possible.
  [[nodiscard]] core::Task<std::expected<Joined, Refusal>> join(Follower& follower, SharedName room,
                                                                std::optional<Position> since, Instant deadline);

  // See Owner. On the core that owns the room.
  void advanced(const std::string& key, std::uint64_t offset) { owner_.advanced(key, offset); }
  // On any core, for the rooms that it owns.
  void look() { owner_.look(); }
  // The owner of a room has read this.
  void take(const Snapshot& snapshot);
  void take(const Update& update);
  // On any core: those who follow may no longer be allowed to. Each room is judged at most once in `judge_pause`.
  void doubt();
  // Judges the followers of a room, and lets those leave who may not stay. Set before the first follower joins.
  class Judge {
   public:
    virtual ~Judge() = default;
    // Returns false if nothing is known now.
    [[nodiscard]] virtual core::Task<bool> judge(std::shared_ptr<View> room) = 0;
  };
  void set_judge(Judge& judge) { judge_ = &judge; }
  // No database is read and nobody is judged any more.
  void stop() {
    tasks_.cancel();
    owner_.stop();
    judge_ = nullptr;
  }
  // On any core: whether publications are heard of. If not, the core looks every `look_pause`.
  void set_heard(bool heard);
  [[nodiscard]] unsigned owner_of(std::string_view key) const;

  // The rooms have been removed: all followers read Kind::ended, and no others join.
  void end();

  [[nodiscard]] std::vector<std::shared_ptr<View>> views() const;
  [[nodiscard]] core::Reactor& reactor() { return here_.reactor; }
  [[nodiscard]] const Counts& counts() const { return counts_; }
  [[nodiscard]] const Owner::Counts& owner_counts() const { return owner_.counts(); }

  static constexpr Duration look_pause = 1s;
  static constexpr Duration judge_pause = 1s;
  // The longest time from the question whether a client may join until it has.
  static constexpr Duration admission = 60s;

 private:
  friend class View;
  friend class Follower;

  void forget(const std::string& key);
  core::Task<void> tick();
  core::Task<void> judge_all();
  void judge_soon();

  const core::Here here_;
  const Shards all_;
  const Limits limits_;
  std::unordered_map<std::string, std::shared_ptr<View>> views_;
  Judge* judge_ = nullptr;  // null: everybody may stay
  bool is_doubtful_ = false;
  Instant doubted_at_{};
  core::Alarm doubt_alarm_;
  bool heard_ = true;
  bool ended_ = false;
  Counts counts_;
  std::optional<Shards::Entry> entry_;
  Owner owner_;
  core::TaskGroup tasks_;  // first to be destroyed
};

}  // namespace sluice::rooms
