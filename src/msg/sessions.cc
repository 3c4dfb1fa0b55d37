#include "msg/sessions.h"

#include <tuple>
#include <utility>

#include "base/assert.h"

namespace sluice::msg {
namespace {

constexpr std::size_t most_spare_bytes = 16 * 1024 * 1024;
constexpr std::size_t most_spare_inputs = 16;
constexpr std::size_t most_shared_messages = 16;
constexpr std::size_t new_buffer_bytes = 1024;
constexpr std::size_t longest_spare_buffer = 256 * 1024;

}  // namespace

Readings Sessions::Counters::readings() const {
  const auto of = [](std::uint64_t value) { return static_cast<double>(value); };
  return {
      gauge("sluice_sessions_open", "Sessions, with those that are opening or ending.", of(open)),
      counter("sluice_sessions_accepted_total", "Sessions that clients have begun.", of(accepted)),
      counter("sluice_sessions_refused_total", "Connections beyond a limit of sessions or descriptors.", of(refused)),
      counter("sluice_sessions_failed_handshakes_total", "TLS handshakes that failed.", of(failed_handshakes)),
      counter("sluice_sessions_denied_total", "Clients over TCP whom a policy refused, or who sent no token.",
              of(denied)),
      counter("sluice_sessions_limited_total", "Sessions that ended because their client sent too many messages.",
              of(limited)),
      counter("sluice_sessions_out_of_memory_total", "Sessions that ended because memory ran out.", of(out_of_memory)),
      counter("sluice_frames_received_total", "Frames from clients.", of(frames_in)),
      counter("sluice_frames_sent_total", "Frames to clients.", of(frames_out)),
      counter("sluice_frames_received_bytes_total", "Bytes of frames from clients.", of(bytes_in)),
      counter("sluice_frames_sent_bytes_total", "Bytes of frames that were queued for clients.", of(bytes_out)),
      counter("sluice_frames_dropped_total", "Frames that clients with full queues did not get.", of(dropped)),
      counter("sluice_frames_bad_total", "Frames that were not valid; their sessions were closed.", of(bad_frames)),
      counter("sluice_handlers_failed_total", "Frames whose handler threw an exception.", of(failed_handlers)),
  };
}

// The ids of a core begin with the time in microseconds, and no core begins a session in each microsecond. So a process
// that starts later has greater ids. The lowest eight bits are the core.
Sessions::Sessions(core::Reactor& reactor, unsigned core, Dispatcher& dispatcher, Observer* observer,
                   const SessionOptions& options)
    : reactor_(reactor),
      dispatcher_(dispatcher),
      observer_(observer),
      options_(options),
      id_(static_cast<std::uint64_t>(reactor.wall_clock_ns() / 1000) << 8 | core) {
  SLUICE_ASSERT(core < 256);
}

Sessions::~Sessions() { cut(); }

void Sessions::cut() {
  for (Session* session : all_) session->cut(Ended::by_server);
  turn_end();
  tasks_.cancel();
}

Session* Sessions::find(std::uint64_t id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : found->second;
}

core::Task<void> Sessions::sent() {
  for (unsigned core = 0; core < mesh_->size(); ++core) {
    if (mesh_->kept(core) != 0) (void)co_await mesh_->post(core, never, [] {});
  }
}

void Sessions::broadcast(const Payload& payload) {
  for (Session* session : all_) session->send(payload);
}

bool Sessions::admits(const std::string& peer) const {
  if (all_.size() >= options_.sessions) return false;
  if (options_.sessions_per_address == 0 || peer.empty()) return true;  // clients of a unix socket have no address
  const auto found = per_address_.find(peer);
  return found == per_address_.end() || found->second < options_.sessions_per_address;
}

void Sessions::add(Session& session) {
  if (all_.size() == all_.capacity()) all_.reserve(2 * all_.size() + 1);  // from here on, only the maps can throw
  by_id_.emplace(session.id(), &session);
  if (options_.sessions_per_address != 0) {
    try {
      ++per_address_[session.peer()];
      session.is_counted_ = true;
    } catch (...) {
      by_id_.erase(session.id());
      throw;
    }
  }
  session.index_ = all_.size();
  all_.push_back(&session);
  ++session.references_;
  counters_.open = all_.size();
}

void Sessions::set_open(Session& session, const Frame* greeting) {
  session.set_state(Session::State::open, Ended::lost);
  session.was_open_ = true;
  if (greeting != nullptr) session.send(*greeting);
  if (observer_ != nullptr) observer_->opened(session);
}

void Sessions::remove(Session& session) {
  by_id_.erase(session.id());
  held_ -= std::exchange(session.held_, 0);
  if (session.is_counted_) {
    const auto found = per_address_.find(session.peer());
    if (--found->second == 0) per_address_.erase(found);
  }
  all_[session.index_] = all_.back();
  all_[session.index_]->index_ = session.index_;
  all_.pop_back();
  session.index_ = Session::removed;
  counters_.open = all_.size();
  if (--session.references_ == 0) delete &session;
}

core::Task<void> Sessions::dispatch(Session& session, const Frame& frame) {
  ++counters_.frames_in;
  if (frame.is_error()) return {};  // services send no requests that a client could refuse
  if (frame.id < first_reserved_id) [[likely]]
    return dispatcher_.dispatch(session, frame);
  if (frame.id == ping_id) {
    if (frame.is_correlated()) session.reply(frame, ping_id, frame.body);
  } else {
    session.send_error(frame, ErrorCode::unknown_message, "This message id is reserved.");
  }
  return {};
}

ws::SharedMessage& Sessions::shared_message(const Payload& payload) {
  reactor_.at_turn_end(hook_);
  for (auto& [of, message] : shared_messages_) {
    if (of == payload) return message;
  }
  if (shared_messages_.size() >= most_shared_messages) shared_messages_.pop_front();
  return shared_messages_
      .emplace_back(std::piecewise_construct, std::forward_as_tuple(payload),
                    std::forward_as_tuple(ws::Message::Kind::binary, payload->view()))
      .second;
}

Buffer Sessions::take_buffer() {
  if (spare_.empty()) return Buffer(new_buffer_bytes);
  Buffer taken = std::move(spare_.back());
  spare_.pop_back();
  spare_bytes_ -= taken.capacity();
  return taken;
}

void Sessions::give_back(Buffer&& buffer) {
  if (buffer.capacity() == 0 || buffer.capacity() > longest_spare_buffer ||
      spare_bytes_ + buffer.capacity() > most_spare_bytes) {
    return buffer.release();
  }
  buffer.clear();
  spare_bytes_ += buffer.capacity();
  spare_.push_back(std::move(buffer));
}

Buffer Sessions::take_input() {
  if (spare_inputs_.empty()) return Buffer(input_bytes);
  Buffer taken = std::move(spare_inputs_.back());
  spare_inputs_.pop_back();
  return taken;
}

void Sessions::give_back_input(Buffer&& buffer) {
  if (buffer.capacity() != input_bytes || spare_inputs_.size() >= most_spare_inputs) return buffer.release();
  buffer.clear();
  spare_inputs_.push_back(std::move(buffer));
}

void Sessions::mark(Session& session) {
  if (session.marked_ || session.index_ == Session::removed) return;
  session.marked_ = true;
  session.next_marked_ = nullptr;
  *last_marked_ = &session;
  last_marked_ = &session.next_marked_;
  reactor_.at_turn_end(hook_);
}

// A session may be marked again, and others may be marked, while this runs.
void Sessions::turn_end() noexcept {
  while (first_marked_ != nullptr) {
    Session& session = *first_marked_;
    first_marked_ = session.next_marked_;
    if (first_marked_ == nullptr) last_marked_ = &first_marked_;
    session.marked_ = false;
    const SessionRef kept(session);
    session.turn_end();
    if (session.waits_for_room_ && session.has_room()) std::exchange(session.waits_for_room_, nullptr).resume();
    if (session.state() != Session::State::ended || session.marked_) continue;
    if (observer_ != nullptr && session.was_open_) observer_->closed(session, session.why_);
    session.data.reset();
    remove(session);
  }
  shared_messages_.clear();
  arena_.reset();
}

}  // namespace sluice::msg
