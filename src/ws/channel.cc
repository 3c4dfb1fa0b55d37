#include "ws/channel.h"

#include <algorithm>
#include <utility>

#include "core/sleep.h"

namespace sluice::ws {
namespace {

constexpr std::size_t read_bytes = 16 * 1024;
constexpr std::size_t large_read_bytes = 64 * 1024;  // within a large frame
constexpr std::size_t output_bytes = 64 * 1024;      // frames gather up to here; then senders wait
constexpr std::size_t copied_bytes = 16 * 1024;      // a longer message is written from where it lies
constexpr std::size_t least_compressed_bytes = 64;   // a shorter message that stands alone only grows
constexpr std::size_t spare_buffers = 64;
constexpr std::size_t spare_buffer_bytes = 128 * 1024;
constexpr unsigned reads_a_turn = 16;  // then others of the core have theirs

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

// Waits until nobody writes; first come, first served.
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
    // Whoever is next, be it that this one has its turn or has been cancelled.
    if (!channel_.writing_ && channel_.first_turn_ != nullptr) channel_.ask_for_pump();
  }

  Channel& channel_;
  std::coroutine_handle<> caller_;
  Turn* next_ = nullptr;
  Turn* previous_ = nullptr;
  bool linked_ = false;
};

// Whoever writes holds one. A write that is cancelled half-way leaves a frame that nobody can complete: the connection
// is lost.
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

Channel::Channel(net::Duplex& duplex, ChannelPool& pool, const ChannelOptions& options,
                 const std::optional<DeflateParameters>& agreed)
    : duplex_(duplex),
      reactor_(duplex.reactor()),
      pool_(pool),
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
    // A peer that sends pings and takes no pongs waits for its own.
    if (in_.empty() || out_.size() >= output_bytes) return std::nullopt;
    const Decoder::Event event = decoder_.next({in_.data(), in_.size()});
    switch (event.kind) {
      case Kind::need_more:
        in_.consume(event.consumed);
        return std::nullopt;
      case Kind::text:
      case Kind::binary:
        if (close_sent_) break;
        given_ = event.consumed;
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
    // What has gathered leaves first.
    if (!out_.empty()) {
      const bool full = out_.size() >= output_bytes;
      if (!writing_ && first_turn_ == nullptr) {
        co_await flush();
      } else if (full) {
        co_await Turn(*this);
        co_await flush();
      }
      // There may be bytes that were not looked at because there was no room for the answers.
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
      if (in_.empty()) {
        pool_.give_back(std::move(in_));
        decoder_.release_given();
      }
      const auto waited = co_await duplex_.readable(next_deadline());
      if (!waited && !over_) miss_deadline();
    }
    if (over_) co_return fail(Errc::closed);
  }
}

Instant Channel::next_deadline() const {
  if (close_sent_ || ping_sent_) return deadline_;
  return heard_ + options_.ping_interval;
}

void Channel::miss_deadline() {
  if (reactor_.now() < next_deadline()) return;  // it has been moved meanwhile
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
  const Opcode opcode = kind == Message::Kind::text ? Opcode::text : Opcode::binary;
  if (!compresses(data)) return append_frame(out_, opcode, data);
  Buffer payload = pool_.take();
  const bool keep = own_deflater_ != nullptr;
  Deflater& deflater = keep ? *own_deflater_ : pool_.codecs().deflater(agreed_->server_window_bits);
  deflater.compress(data, payload, keep);
  // What does not get smaller goes as it is, unless the dictionary already counts on it.
  if (keep || payload.size() < data.size()) {
    append_frame(out_, opcode, payload.view(), true);
  } else {
    append_frame(out_, opcode, data);
  }
  pool_.give_back(std::move(payload));
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
  co_await Turn(*this);
  if (closing()) co_return fail(Errc::closed);
  ++pool_.counters_.messages_sent;
  pool_.counters_.bytes_sent += data.size();
  if (data.size() <= copied_bytes || compresses(data)) {
    append_message(kind, data);
    co_await flush();
  } else {
    append_header(out_, {.opcode = kind == Message::Kind::text ? Opcode::text : Opcode::binary,
                         .fin = true,
                         .payload_size = data.size()});
    {
      Writing writing(*this);
      Buffer head = std::exchange(out_, Buffer());
      iovec parts[2] = {{head.data(), head.size()}, {const_cast<char*>(data.data()), data.size()}};
      if (co_await duplex_.write(parts, options_.write_timeout)) writing.done();
      pool_.give_back(std::move(head));
    }
    if (!out_.empty() && first_turn_ == nullptr) co_await flush();
  }
  if (lost_) co_return fail(Errc::closed);
  co_return Result<void>{};
}

// Writes all that has gathered, and what gathers meanwhile.
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
  // What still comes is dropped.
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

// At the end of the turn: whoever waits to write has its turn, or what has gathered leaves. What is resumed here may
// end the channel, so each way out is its last act.
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
