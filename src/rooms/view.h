#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/time.h"
#include "core/reactor.h"
#include "rooms/publication.h"

namespace sluice::rooms {

class Rooms;
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

// A room on one core, for its followers there.
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
