#include "ws/channel.h"

#include <algorithm>
#include <utility>

#include "core/sleep.h"

namespace sluice::ws {
namespace {

constexpr std::size_t read_bytes = 16 * 1024;
constexpr std::size_t large_read_bytes = 64 * 1024;  // within a large frame
constexpr std::size_t output_bytes = 64 * 1024;      // output is collected up to this size; then senders wait
constexpr std::size_t copied_bytes = 16 * 1024;      // a longer message is written without copying
constexpr std::size_t counted_piece_bytes = 64 * 1024;
constexpr std::size_t least_compressed_bytes = 64;  // without a dictionary, a shorter message only grows
constexpr std::size_t rest_bytes = 256;             // an incomplete control frame or header is smaller
constexpr std::size_t spare_buffers = 64;
constexpr std::size_t spare_buffer_bytes = 128 * 1024;
constexpr unsigned reads_a_turn = 16;  // then the core serves other connections

Opcode opcode_of(Message::Kind kind) { return kind == Message::Kind::text ? Opcode::text : Opcode::binary; }

}  // namespace

Buffer ChannelPool::take() {
  if (spare_.empty()) return {};
  Buffer buffer = std::move(spare_.back());
  spare_.pop_back();
  return buffer;
}

void ChannelPool::give_back(Buffer&& buffer) {
  Buffer given = std::move(buffer);
  if (given.capacity() == 0 || given.capacity() > spare_buffer_bytes || spare_.size() >= spare_buffers) return;
  given.clear();
  spare_.push_back(std::move(given));
}

// Waits until no other coroutine writes, in first-come order.
class Channel::Turn {
 public:
  explicit Turn(Channel& channel) : channel_(channel) {}
  Turn(const Turn&) = delete;
  ~Turn() { unlink(); }

  bool await_ready() const noexcept {
    return channel_.lost_ || (!channel_.writing_ && channel_.first_turn_ == nullptr);
  }
  void await_suspend(std::coroutine_handle<> caller) noexcept {
    caller_ = caller;
    linked_ = true;
    previous_ = channel_.last_turn_;
    (previous_ != nullptr ? previous_->next_ : channel_.first_turn_) = this;
    channel_.last_turn_ = this;
    if (!channel_.writing_) channel_.ask_for_pump();
  }
  void await_resume() const noexcept {}
  void begin() {
    unlink();
    caller_.resume();
  }

 private:
  void unlink() noexcept {
    if (!linked_) return;
    linked_ = false;
    (next_ != nullptr ? next_->previous_ : channel_.last_turn_) = previous_;
    (previous_ != nullptr ? previous_->next_ : channel_.first_turn_) = next_;
    // Wakes the next coroutine, whether this one got its turn or was cancelled.
    if (!channel_.writing_ && channel_.first_turn_ != nullptr) channel_.ask_for_pump();
  }

  Channel& channel_;
  std::coroutine_handle<> caller_;
  Turn* next_ = nullptr;
  Turn* previous_ = nullptr;
  bool linked_ = false;
};

// Held by the coroutine that writes. A write that is cancelled halfway leaves an incomplete frame, so the connection is
// cut.
class Channel::Writing {
 public:
  explicit Writing(Channel& channel) : channel_(channel) { channel_.writing_ = true; }
  Writing(const Writing&) = delete;
  ~Writing() {
    channel_.writing_ = false;
    if (!done_) channel_.lose();
    if (channel_.first_turn_ != nullptr || !channel_.out_.empty()) channel_.ask_for_pump();
  }
  void done() { done_ = true; }

 private:
  Channel& channel_;
  bool done_ = false;
};

// Marks a wait for the peer. Meanwhile the memory of its message may be reclaimed for others.
class Channel::PeerWait {
 public:
  explicit PeerWait(Channel& channel) : channel_(channel), counts_(channel.memory_ != nullptr && channel.held_ != 0) {
    if (counts_ && channel_.peer_waits_++ == 0) channel_.memory_->set_waiting(true);
  }
  PeerWait(const PeerWait&) = delete;
  ~PeerWait() {
    if (counts_ && --channel_.peer_waits_ == 0) channel_.memory_->set_waiting(false);
  }

 private:
  Channel& channel_;
  const bool counts_;
};

Channel::Channel(net::Duplex& duplex, ChannelPool& pool, const ChannelOptions& options,
                 const std::optional<DeflateParameters>& agreed, MessageMemory* memory)
    : duplex_(duplex),
      reactor_(duplex.reactor()),
      pool_(pool),
      memory_(memory),
      options_(options),
      agreed_(agreed),
      own_deflater_(agreed && !agreed->server_no_context_takeover
                        ? std::make_unique<Deflater>(agreed->server_window_bits)
                        : nullptr),
      own_inflater_(agreed && !agreed->client_no_context_takeover
                        ? std::make_unique<Inflater>(agreed->client_window_bits)
                        : nullptr),
      decoder_({.max_frame = options.max_frame,
                .max_message = options.max_message,
                .peer_masks = true,
                .inflater = own_inflater_ ? own_inflater_.get()
                            : agreed      ? &pool.codecs().inflater()
                                          : nullptr,
                .keep_context = own_inflater_ != nullptr}),
      heard_(reactor_.now()) {
  ++pool_.counters_.opened;
  ++pool_.counters_.open;
}

Channel::~Channel() {
  SLUICE_ASSERT(first_turn_ == nullptr);
  flushing_.cancel();
  --pool_.counters_.open;
  pool_.give_back(std::move(in_));
  pool_.give_back(std::move(out_));
}

core::Async<Result<Message>> Channel::receive() {
  if (auto message = take()) return std::move(*message);
  return receive_later();
}

std::optional<Result<Message>> Channel::take() {
  in_.consume(std::exchange(given_, 0));
  using Kind = Decoder::Event::Kind;
  for (;;) {
    if (over_) return fail(Errc::closed);
    // Stop reading from a peer that sends pings but does not read the pongs.
    if (in_.empty() || out_.size() >= output_bytes) return std::nullopt;
    const Decoder::Event event = decoder_.next({in_.data(), in_.size()});
    if (decoder_.held() != held_) [[unlikely]] {
      if (const CloseCode code = account(); code != CloseCode::none) {
        decoder_.release();
        refuse(code);
        return fail(Errc::closed);
      }
    }
    switch (event.kind) {
      case Kind::need_more:
        in_.consume(event.consumed);
        return std::nullopt;
      case Kind::text:
      case Kind::binary:
        if (close_sent_) break;
        given_ = event.consumed;
        grew_at_ = reactor_.now();
        ++pool_.counters_.messages_received;
        pool_.counters_.bytes_received += event.data.size();
        return Message{event.kind == Kind::text ? Message::Kind::text : Message::Kind::binary, event.data};
      case Kind::ping:
        if (!close_sent_) append_control(Opcode::pong, event.data);
        break;
      case Kind::pong:
        break;
      case Kind::close:
        if (!close_sent_) {
          by_peer_ = true;
          begin_close(event.code, {});
        }
        over_ = true;
        break;
      case Kind::refused:
        refuse(event.code);
        break;
    }
    in_.consume(event.consumed);
  }
}

core::Task<Result<Message>> Channel::receive_later() {
  struct Receiving {
    Channel& channel;
    explicit Receiving(Channel& owner) : channel(owner) {
      SLUICE_ASSERT(!channel.receiving_);
      channel.receiving_ = true;
    }
    ~Receiving() { channel.receiving_ = false; }
  } receiving(*this);

  for (;;) {
    // Send the collected output first.
    if (!out_.empty()) {
      const bool full = out_.size() >= output_bytes;
      const PeerWait waiting(*this);
      if (!writing_ && first_turn_ == nullptr) {
        co_await flush();
      } else if (full) {
        co_await Turn(*this);
        co_await flush();
      }
      // Some received bytes may not have been processed because there was no room for the replies.
      if (over_ || full) {
        if (auto message = take()) co_return std::move(*message);
        continue;
      }
    }

    if (reads_turn_ != reactor_.now()) {
      reads_turn_ = reactor_.now();
      reads_ = 0;
    }
    if (++reads_ > reads_a_turn) {
      co_await core::Sleep(reactor_, Instant{});  // until the next turn
      if (over_) co_return fail(Errc::closed);
    }
    if (in_.capacity() == 0) in_ = pool_.take();
    const bool large = decoder_.frame_left() >= large_read_bytes;
    if (const auto got = duplex_.try_read(in_, large ? large_read_bytes : read_bytes)) {
      heard_ = reactor_.now();
      ping_sent_ = false;
      if (!*got || **got == 0) lose();  // without a close frame
      if (auto message = take()) co_return std::move(*message);
    } else {
      co_await wait();
    }
    if (over_) co_return fail(Errc::closed);
  }
}

// Waits for the peer. Keeps only an incomplete message or frame header in memory.
core::Task<void> Channel::wait() {
  decoder_.trim();
  if (decoder_.held() != held_) (void)account();  // it has shrunk
  if (in_.empty()) {
    pool_.give_back(std::move(in_));
  } else if (in_.size() <= rest_bytes && in_.capacity() > 2 * rest_bytes) {
    Buffer rest;
    rest.append(in_.view());
    pool_.give_back(std::exchange(in_, std::move(rest)));
  }
  if (!std::exchange(in_message_, decoder_.in_message())) grew_at_ = reactor_.now();
  const PeerWait waiting(*this);
  const auto waited = co_await duplex_.readable(next_deadline());
  if (!waited && !over_) miss_deadline();
}

// Control frames count as a sign of life of the peer, but do not extend the deadline of a message.
Instant Channel::next_deadline() const {
  if (close_sent_) return deadline_;
  const Instant next = ping_sent_ ? deadline_ : heard_ + options_.ping_interval;
  return in_message_ ? std::min(next, message_deadline()) : next;
}

void Channel::miss_deadline() {
  if (reactor_.now() < next_deadline()) return;  // the deadline has been moved
  if (!close_sent_ && in_message_ && reactor_.now() >= message_deadline()) return refuse(CloseCode::policy_violation);
  if (close_sent_ || ping_sent_) return lose();
  ping_sent_ = true;
  deadline_ = reactor_.now() + options_.pong_timeout;
  append_control(Opcode::ping, {});
}

void Channel::append_control(Opcode opcode, std::string_view payload) {
  if (out_.capacity() == 0) out_ = pool_.take();
  append_frame(out_, opcode, payload);
  ask_for_pump();
}

bool Channel::compresses(std::string_view data) const {
  return agreed_ && data.size() >= (own_deflater_ ? 1 : least_compressed_bytes);
}

void Channel::append_message(Message::Kind kind, std::string_view data) {
  const Opcode opcode = opcode_of(kind);
  if (!compresses(data)) return append_frame(out_, opcode, data);
  if (own_deflater_) return append_compressed(out_, opcode, data, *own_deflater_, true);
  append_compressed(out_, opcode, data, pool_.codecs().deflater(agreed_->server_window_bits), false);
}

void Channel::append_compressed(Buffer& out, Opcode opcode, std::string_view data, Deflater& deflater, bool keep) {
  Buffer payload = pool_.take();
  deflater.compress(data, payload, keep);
  // A message that does not shrink is sent uncompressed, unless the persistent dictionary already includes it.
  if (keep || payload.size() < data.size()) {
    append_frame(out, opcode, payload.view(), true);
  } else {
    append_frame(out, opcode, data);
  }
  pool_.give_back(std::move(payload));
}

core::Async<Result<void>> Channel::send(SharedMessage& message) {
  const std::string_view data = message.data_;
  if (!compresses(data) || own_deflater_ || closing()) return send(message.kind_, data);
  Buffer& frame = message.frames_[agreed_->server_window_bits];
  if (frame.empty()) {
    append_compressed(frame, opcode_of(message.kind_), data, pool_.codecs().deflater(agreed_->server_window_bits),
                      false);
  }
  if (frame.size() > copied_bytes || out_.size() >= output_bytes || first_turn_ != nullptr) {
    return send_later(message.kind_, data);
  }
  ++pool_.counters_.messages_sent;
  pool_.counters_.bytes_sent += data.size();
  if (out_.capacity() == 0) out_ = pool_.take();
  out_.append(frame.view());
  ask_for_pump();
  return Result<void>{};
}

core::Async<Result<void>> Channel::send(Message::Kind kind, std::string_view data) {
  if (closing()) return fail(Errc::closed);
  if (data.size() > copied_bytes || out_.size() >= output_bytes || first_turn_ != nullptr) {
    return send_later(kind, data);
  }
  ++pool_.counters_.messages_sent;
  pool_.counters_.bytes_sent += data.size();
  if (out_.capacity() == 0) out_ = pool_.take();
  append_message(kind, data);
  ask_for_pump();
  return Result<void>{};
}

core::Task<Result<void>> Channel::send_later(Message::Kind kind, std::string_view data) {
  const bool is_counted =
      memory_ != nullptr && held_ != 0;  // the receiver is processing a message, and may be sending it
  if (is_counted) memory_->moved(data.size());
  const PeerWait waiting(*this);
  co_await Turn(*this);
  if (closing()) co_return fail(Errc::closed);
  ++pool_.counters_.messages_sent;
  pool_.counters_.bytes_sent += data.size();
  if (data.size() <= copied_bytes || compresses(data)) {
    append_message(kind, data);
    co_await flush();
  } else {
    append_header(out_, {.opcode = opcode_of(kind), .fin = true, .payload_size = data.size()});
    {
      Writing writing(*this);
      Buffer head = std::exchange(out_, Buffer());
      // Written in pieces if memory_ must be notified of the peer's progress.
      const std::size_t most = is_counted ? counted_piece_bytes : data.size();
      Result<void> written;
      for (std::size_t sent = 0; written && sent < data.size(); sent += most) {
        const std::string_view piece = data.substr(sent, most);
        iovec parts[2] = {{head.data(), sent == 0 ? head.size() : 0}, {const_cast<char*>(piece.data()), piece.size()}};
        written = co_await duplex_.write(parts, options_.write_timeout);
        if (is_counted) memory_->moved(piece.size());
      }
      if (written) writing.done();
      pool_.give_back(std::move(head));
    }
    if (!out_.empty() && first_turn_ == nullptr) co_await flush();
  }
  if (lost_) co_return fail(Errc::closed);
  co_return Result<void>{};
}

// Writes all collected output, including output added during the writes.
core::Task<void> Channel::flush() {
  if (lost_) co_return;
  Writing writing(*this);
  while (!out_.empty()) {
    Buffer sending = std::exchange(out_, Buffer());
    iovec part{sending.data(), sending.size()};
    if (!co_await duplex_.write({&part, 1}, options_.write_timeout)) co_return;
    pool_.give_back(std::move(sending));
  }
  writing.done();
}

void Channel::begin_close(CloseCode code, std::string_view reason) {
  append_close(out_, code, reason);
  close_sent_ = true;
  code_ = code;
  deadline_ = reactor_.now() + options_.close_timeout;
  ask_for_pump();
}

// The size of the decoder's buffers has changed. A smaller size is always accepted.
CloseCode Channel::account() {
  const std::size_t held = decoder_.held();
  if (held > held_) grew_at_ = reactor_.now();
  if (memory_ != nullptr) {
    if (held < held_) {
      memory_->give_back(held_ - held);
    } else if (const CloseCode code = memory_->take(held - held_); code != CloseCode::none) {
      return code;
    }
  }
  held_ = held;
  return CloseCode::none;
}

void Channel::cut() {
  lose();
  duplex_.cut();
}

void Channel::abandon() {
  if (!receiving_) return cut();
  decoder_.release();
  held_ = 0;
  refuse(CloseCode::try_again_later);
  wakes_receiver_ = true;
}

void Channel::refuse(CloseCode code) {
  if (!close_sent_) begin_close(code, {});
  over_ = true;
}

void Channel::lose() {
  if (lost_) return;
  if (!close_sent_) code_ = CloseCode::abnormal;
  lost_ = over_ = true;
  ++pool_.counters_.lost;
  out_.clear();
  wakes_receiver_ = true;
  ask_for_pump();
}

core::Task<void> Channel::close(CloseCode code, std::string_view reason) {
  if (!closing()) begin_close(code, reason);
  if (receiving_) {
    wakes_receiver_ = true;
    ask_for_pump();
    co_return;
  }
  // Messages that still arrive are dropped.
  if (!take()) (void)co_await receive_later();
  if (!out_.empty() && !lost_) {
    co_await Turn(*this);
    co_await flush();
  }
}

void Channel::drain(CloseCode code) {
  if (closing()) return;
  begin_close(code, {});
  wakes_receiver_ = true;
}

void Channel::ask_for_pump() { reactor_.at_turn_end(hook_); }

// At the end of the turn: resumes the first waiting writer, or sends the collected output. The resumed coroutine may
// destroy the channel, so no branch uses it afterwards.
void Channel::pump(core::TurnHook& hook) noexcept {
  Channel& self = static_cast<Hook&>(hook).channel;
  if (!self.writing_) {
    if (Turn* const turn = self.first_turn_) {
      if (self.wakes_receiver_) self.ask_for_pump();
      return turn->begin();
    }
    if (!self.out_.empty() && !self.lost_) {
      if (self.wakes_receiver_) self.ask_for_pump();
      return self.flushing_.spawn(self.flush());
    }
  }
  if (std::exchange(self.wakes_receiver_, false) && self.receiving_) self.duplex_.interrupt();
}

}  // namespace sluice::ws
