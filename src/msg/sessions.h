#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/buffer.h"
#include "base/reading.h"
#include "base/time.h"
#include "core/arena.h"
#include "core/mesh.h"
#include "core/reactor.h"
#include "core/task.h"
#include "msg/dispatcher.h"
#include "msg/session.h"
#include "ws/channel.h"

namespace sluice::msg {

// The consequence for a receiver whose queue is full.
enum class SlowReceiver : std::uint8_t {
  close,      // its session ends
  mark_gaps,  // frames are dropped until the queue has been written; then a gap frame says how many
};

// Limits for sessions.
struct SessionOptions {
  std::uint32_t most_body = 1024 * 1024;  // bytes of a frame's body; beyond it: ErrorCode::too_large
  std::size_t most_queued = 1024 * 1024;  // bytes that wait for one client; then its queue is full
  SlowReceiver slow_receiver = SlowReceiver::close;
  Duration handshake_timeout = 10s;      // for TLS, and for a token after it
  Duration frame_timeout = 10s;          // from a frame's first byte to its last
  Duration heartbeat = 30s;              // a client that is silent for this long gets a ping
  Duration idle_timeout = 75s;           // a client that is silent for this long is closed
  Duration write_timeout = 30s;          // without the client reading enough: closed
  std::uint32_t slowest_client = 240;    // bytes per second that a client must read, averaged over write_timeout
  std::size_t sessions = 16384;          // on one core; beyond it, new connections are closed
  std::size_t sessions_per_address = 0;  // on one core, of one client address; 0: no limit
  // A client may send `message_burst` messages at once, and then one in each interval; zero: no limit.
  Duration message_interval{};
  std::uint32_t message_burst = 1;
  // Bytes that the sessions of one core hold together: frames for one client, and frames that have not arrived whole.
  // Beyond it, sessions that hold more than an equal share are treated as full.
  std::size_t memory = 256 * 1024 * 1024;
};

// The sessions of one core, and the state that they share.
class Sessions {
 public:
  // Learns of sessions. Its functions must not throw.
  class Observer {
   public:
    virtual void opened(Session& session) = 0;
    // At the end of a turn; `session` cannot send any more.
    virtual void closed(Session& session, Ended why) = 0;

   protected:
    ~Observer() = default;
  };
  struct Counters {
    std::uint64_t accepted = 0;
    std::uint64_t refused = 0;  // beyond a limit of sessions or descriptors
    std::uint64_t open = 0;     // gauge, with those that are opening or ending
    std::uint64_t frames_in = 0;
    std::uint64_t frames_out = 0;
    std::uint64_t bytes_in = 0;
    std::uint64_t bytes_out = 0;  // queued for writing
    std::uint64_t dropped = 0;    // frames for full queues
    std::uint64_t bad_frames = 0;
    std::uint64_t failed_handlers = 0;  // that threw an exception
    std::uint64_t out_of_memory = 0;    // sessions that ended because memory ran out
    std::uint64_t failed_handshakes = 0;
    std::uint64_t denied = 0;   // clients that a Door refused, or that sent it no token
    std::uint64_t limited = 0;  // sessions that ended because their client sent too many messages

    [[nodiscard]] Readings readings() const;
  };

  // `core`: its index, below 256. All references outlive the object.
  Sessions(core::Reactor& reactor, unsigned core, Dispatcher& dispatcher, Observer* observer,
           const SessionOptions& options);
  Sessions(const Sessions&) = delete;
  ~Sessions();

  [[nodiscard]] core::Reactor& reactor() { return reactor_; }
  [[nodiscard]] const SessionOptions& options() const { return options_; }
  // Sessions that are open keep what depends on their number, and otherwise get the new limits.
  void set_options(const SessionOptions& options) { options_ = options; }
  [[nodiscard]] const Counters& counters() const { return counters_; }
  // All sessions that are not ended. The span is valid until a session begins, or the turn ends.
  [[nodiscard]] std::span<Session* const> all() const { return all_; }
  // Null if no session of this core has the id.
  [[nodiscard]] Session* find(std::uint64_t id) const;
  // Queues the payload for every open session.
  void broadcast(const Payload& payload);
  // Memory for the rest of this turn; freed at its end.
  [[nodiscard]] core::Arena& arena() {
    reactor_.at_turn_end(hook_);
    return arena_;
  }

  // For implementations of sessions.
  [[nodiscard]] std::uint64_t next_id() { return id_ += 256; }
  // Whether one more session of this address may begin.
  [[nodiscard]] bool admits(const std::string& peer) const;
  void add(Session& session);
  // The session begins to read frames.
  // `greeting`: the session's first frame; may be null.
  void set_open(Session& session, const Frame* greeting = nullptr);
  [[nodiscard]] core::Task<void> dispatch(Session& session, const Frame& frame);
  // The payload as a message for WebSockets; the same one for all sessions that write it in this turn. Valid until the
  // turn ends.
  [[nodiscard]] ws::SharedMessage& shared_message(const Payload& payload);
  [[nodiscard]] Buffer take_buffer();
  void give_back(Buffer&& buffer);
  // Buffers that frames are read into. Only sessions that are busy have one.
  static constexpr std::size_t input_bytes = 64 * 1024;
  [[nodiscard]] Buffer take_input();
  void give_back_input(Buffer&& buffer);
  [[nodiscard]] core::TaskGroup& tasks() { return tasks_; }
  [[nodiscard]] Counters& counting() { return counters_; }
  // The port through which handlers send to other cores. Null: they send nothing.
  void set_mesh(core::MeshPort* mesh) { mesh_ = mesh; }
  // Whether a message to another core waits for room. A session that would cause more of them then waits for sent().
  [[nodiscard]] bool sends_wait() const { return mesh_ != nullptr && mesh_->waits(); }
  // Waits until the messages that wait now have been sent.
  [[nodiscard]] core::Task<void> sent();
  // Whether the caller runs on the thread of these sessions.
  [[nodiscard]] bool is_here() const { return std::this_thread::get_id() == thread_; }

  // Ends all sessions at once.
  void cut();

 private:
  friend class Session;
  struct Hook : core::TurnHook {
    explicit Hook(Sessions& owner)
        : TurnHook([](TurnHook& hook) noexcept { static_cast<Hook&>(hook).sessions.turn_end(); }), sessions(owner) {}
    Sessions& sessions;
  };

  void mark(Session& session);
  void turn_end() noexcept;
  void remove(Session& session);

  core::Reactor& reactor_;
  const std::thread::id thread_ = std::this_thread::get_id();
  core::MeshPort* mesh_ = nullptr;
  Dispatcher& dispatcher_;
  Observer* const observer_;
  SessionOptions options_;
  Counters counters_;
  std::uint64_t id_;
  std::vector<Session*> all_;
  std::size_t held_ = 0;  // bytes: see SessionOptions::memory
  std::unordered_map<std::uint64_t, Session*> by_id_;
  std::unordered_map<std::string, std::size_t> per_address_;  // only with a limit
  Session* first_marked_ = nullptr;
  Session** last_marked_ = &first_marked_;
  Hook hook_{*this};
  core::Arena arena_;
  std::deque<std::pair<Payload, ws::SharedMessage>> shared_messages_;
  std::vector<Buffer> spare_;
  std::size_t spare_bytes_ = 0;  // their capacity
  std::vector<Buffer> spare_inputs_;
  core::TaskGroup tasks_;
};

template <class Make>
void Session::spawn(Make make, core::TaskGroup::Member*& place) noexcept {
  try {
    sessions_.tasks().spawn(make(), &place);
  } catch (const std::bad_alloc&) {
    place = nullptr;
    ++sessions_.counting().out_of_memory;
    cut(Ended::lost);
  }
}

}  // namespace sluice::msg
