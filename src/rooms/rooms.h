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

#include "base/log.h"
#include "base/reading.h"
#include "base/time.h"
#include "core/alarm.h"
#include "core/back_off.h"
#include "core/here.h"
#include "core/sharded.h"
#include "core/task.h"
#include "rooms/publication.h"
#include "rooms/source.h"

// The rooms of one [[room]] on all cores.
//
// A room has an owner core, by the hash of its key, and a view on each core where it has followers. The owner alone
// reads the database: once for all followers, and once for all commits that have come meanwhile. It passes what it has
// read to the views as shared values, in order. A follower has no queue of its own: it reads the view at its own pace.
namespace sluice::rooms {

class Rooms;

// A room on one core, for its followers there.
class View;

// Reads a room's publications, on one core. Leaves the room when it is destroyed.
class Follower {
 public:
  struct Next {
    enum class Kind : std::uint8_t { nothing, publication, behind, rewound, ended };
    Kind kind = Kind::nothing;
    SharedPublication publication;  // of Kind::publication
    Position position;              // of all other kinds: where the follower goes on
  };

  Follower() = default;
  Follower(const Follower&) = delete;
  Follower& operator=(const Follower&) = delete;
  virtual ~Follower() { leave(); }

  [[nodiscard]] bool has_joined() const { return view_ != nullptr; }
  // Precondition: has_joined().
  [[nodiscard]] const SharedName& room() const;
  // The next thing to tell, which then counts as told. Precondition: has_joined().
  [[nodiscard]] Next next();
  void leave();

 private:
  friend class Rooms;
  friend class View;
  // next() has something. May destroy the follower.
  virtual void news() = 0;

  struct Link {
    Follower* next = nullptr;
    Follower* previous = nullptr;
  };
  std::shared_ptr<Rooms> rooms_;  // of view_
  std::shared_ptr<View> view_;    // null: it has not joined
  std::uint64_t seen_ = 0;        // offset
  std::uint64_t era_ = 0;         // as of the view
  Link link_;
  bool is_woken_ = false;  // it is in the view's list of followers to wake
};

struct Limits {
  KeepLimits keep;
  std::size_t rooms = 10'000;  // with followers, on each core
  Duration linger = 30s;       // how long a room without followers is kept
};

// One core's part.
class Rooms : public std::enable_shared_from_this<Rooms> {
 public:
  struct Counts {
    std::uint64_t rooms = 0;         // gauge: views
    std::uint64_t followers = 0;     // gauge
    std::uint64_t publications = 0;  // read by owners
    std::uint64_t reads = 0;         // of the history
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

  // On the owner: the room's counter has this value, or a higher one.
  void advanced(const std::string& key, std::uint64_t offset);
  // On any core: rooms that it owns may have publications without a notice.
  void look();
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
    judge_ = nullptr;
  }
  // On any core: whether publications are heard of. If not, the core looks every `look_pause`.
  void set_heard(bool heard);
  [[nodiscard]] unsigned owner_of(std::string_view key) const;

  // The rooms have been removed: all followers read Kind::ended, and no others join.
  void end();
  [[nodiscard]] bool has_ended() const { return ended_; }

  [[nodiscard]] std::vector<std::shared_ptr<View>> views() const;
  [[nodiscard]] core::Reactor& reactor() { return here_.reactor; }
  [[nodiscard]] const Counts& counts() const { return counts_; }

  static constexpr Duration look_pause = 1s;
  static constexpr Duration judge_pause = 1s;
  static constexpr Duration admission =
      60s;  // the longest time from the question whether a client may join until it has

 private:
  friend class View;
  friend class Follower;

  // A follower, or several, of another core want to begin.
  struct Want {
    unsigned core = 0;
    std::uint64_t serial = 0;
    std::optional<Position> since;
    std::uint64_t needs = 0;  // which read of the counter must have succeeded
  };
  struct Owned;
  // A room when its counter is read. The counter is not less, unless it was set back.
  struct Known {
    std::uint64_t last = 0;
    std::uint64_t target = 0;
  };
  struct Snapshot;
  struct Update;

  // Of the owner.
  void want(SharedName room, Want want);
  void leave(const std::string& key, unsigned core);
  void make_stale(Owned& room);
  void kick(const std::shared_ptr<Owned>& room);
  core::Task<void> read_counters();
  void take_counter(const std::shared_ptr<Owned>& room, std::uint64_t epoch, std::uint64_t offset, const Known& before);
  core::Task<void> work(std::shared_ptr<Owned> room);
  core::Task<bool> catch_up(Owned& room);
  core::Task<bool> fill(Owned& room, std::uint64_t from);
  void answer(Owned& room);
  void tell(Owned& room, Update update);
  void forget_unused(const std::shared_ptr<Owned>& room);

  // Of the views.
  void take(const Snapshot& snapshot);
  void take(const Update& update);
  void forget(const std::string& key);
  core::Task<void> tick();
  core::Task<void> judge_all();
  void judge_soon();

  const core::Here here_;
  const Shards all_;
  const std::unique_ptr<Source> source_;
  const Limits limits_;
  TroubleLog trouble_;
  std::unordered_map<std::string, std::shared_ptr<Owned>> owned_;
  std::unordered_map<std::string, std::shared_ptr<View>> views_;
  std::vector<std::shared_ptr<Owned>> stale_;  // their counters must be read
  core::Alarm stale_alarm_;
  Judge* judge_ = nullptr;  // null: everybody may stay
  bool is_doubtful_ = false;
  Instant doubted_at_{};
  core::Alarm doubt_alarm_;
  bool heard_ = true;
  bool ended_ = false;
  Counts counts_;
  std::optional<Shards::Entry> entry_;
  core::TaskGroup tasks_;  // first to be destroyed
};

class View final : core::TurnHook, public std::enable_shared_from_this<View> {
 public:
  // How many followers are woken in one turn of the loop, so that others are served between them.
  static constexpr std::size_t followers_a_turn = 64;
  // While followers are being told, as many times the kept publications are kept.
  static constexpr std::size_t kept_while_telling = 8;

  View(Rooms& rooms, SharedName name);
  View(const View&) = delete;
  ~View();

  [[nodiscard]] const SharedName& name() const { return name_; }
  [[nodiscard]] std::size_t size() const { return size_; }
  // Calls fn(follower) for each; `fn` may let that follower leave.
  template <class Fn>
  void each(Fn fn) {
    for (Ring* const ring : {&waiting_, &woken_}) {
      for (Follower* one = ring->first; one != nullptr;) {
        Follower* const next = one->link_.next;
        fn(*one);
        one = next;
      }
    }
  }

 private:
  friend class Rooms;
  friend class Follower;
  struct Ring {
    Follower* first = nullptr;
    Follower* last = nullptr;
    void append(Follower& follower);
    void remove(Follower& follower);
  };

  void add(Follower& follower, std::uint64_t seen);
  void remove(Follower& follower);
  void wake_all();
  void wake_later(Follower& follower);
  void trim();
  static void next_turn(core::TurnHook& hook) noexcept;
  void wake_some();

  Rooms& rooms_;
  const SharedName name_;
  Kept kept_;
  std::uint64_t era_ = 0;  // grows when the counter was set back
  bool ready_ = false;     // kept_ is known
  bool ended_ = false;
  std::uint64_t asked_ = 0;     // the serial of the last Want
  std::uint64_t answered_ = 0;  // the highest serial of a Want that was answered
  struct Waiter;
  Waiter* waiters_ = nullptr;  // of join()
  std::size_t size_ = 0;       // followers
  std::size_t users_ = 0;      // joining
  Instant unused_since_{};
  Ring waiting_;
  Ring woken_;
};

}  // namespace sluice::rooms
