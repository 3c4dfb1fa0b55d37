#include "msg/channel_session.h"

#include <new>
#include <utility>

#include "msg/sessions.h"

namespace sluice::msg {
namespace {

ws::CloseCode close_code_of(Ended why) {
  if (why == Ended::limited) return ws::CloseCode::too_many_messages;
  return why == Ended::by_server ? ws::CloseCode::going_away : ws::CloseCode::protocol_error;
}

}  // namespace

ChannelSession::ChannelSession(Sessions& sessions, ws::Channel& channel, Handshake handshake)
    : Session(sessions, sessions.next_id(), 0),
      channel_(&channel),
      handshake_(std::move(handshake)),
      over_(sessions.reactor()) {
  peer_ = handshake_.peer;
}

core::Task<void> run_session(Sessions& sessions, ws::Channel& channel, Handshake handshake) {
  if (!sessions.admits(handshake.peer)) {
    ++sessions.counting().refused;
    co_await channel.close(ws::CloseCode::try_again_later);
    co_return;
  }
  auto* const made = new ChannelSession(sessions, channel, std::move(handshake));
  const SessionRef session(*made);
  ++sessions.counting().accepted;
  sessions.add(*made);
  struct Detach {
    ChannelSession& session;
    ~Detach() { session.detach(); }
  } detach{*made};
  sessions.set_open(*made);
  made->spawn([made] { return made->run(); }, made->reading_);
  while (made->reading_ != nullptr) (void)co_await made->over_.wait(never);
}

core::Task<void> ChannelSession::run() {
  const SessionRef self(*this);
  struct Running {
    ChannelSession& session;
    ~Running() {
      session.reading_ = nullptr;
      session.over_.ring();
    }
  } running{*this};
  try {
    co_await receive();
  } catch (const std::bad_alloc&) {
    ++sessions_.counting().out_of_memory;
    cut(Ended::lost);
  }
}

core::Task<void> ChannelSession::receive() {
  Sessions::Counters& counters = sessions_.counting();
  FrameDecoder decoder(sessions_.options().most_body);
  Buffer input;
  while (channel_ != nullptr) {
    const auto message = co_await channel_->receive();
    if (!message) {
      cut(channel_->closed_by_peer() ? Ended::by_peer : Ended::lost);
      co_return;
    }
    if (!open()) continue;  // waits for the peer's answer to the close frame
    counters.bytes_in += message->data.size();
    if (message->kind == ws::Message::Kind::binary) {
      input.append(message->data);
      co_await handle_frames(decoder, input);
      if (!open()) mark();  // the session may have waited for the handler
      if (input.empty()) {
        sessions_.give_back(std::exchange(input, {}));
        continue;
      }
    }
    if (open()) {
      ++counters.bad_frames;
      send_error({}, ErrorCode::bad_frame, "A message must be binary and consist of whole frames.");
      close(Ended::refused);
    }
  }
}

core::Task<void> ChannelSession::handle_frames(FrameDecoder& decoder, Buffer& input) {
  while (open()) {
    const auto next = decoder.next(input);
    if (!next) {
      ++sessions_.counting().bad_frames;
      send_error(Frame{.id = decoder.refusal().id},
                 next.error().code == Errc::limit ? ErrorCode::too_large : ErrorCode::bad_frame,
                 decoder.refusal().text());
      close(Ended::refused);
      co_return;
    }
    if (!*next) co_return;
    if (auto waits = pass(**next)) co_await std::move(waits);
    co_await Room(*this);
    if (sessions_.sends_wait()) [[unlikely]]
      co_await sessions_.sent();
  }
}

core::Task<void> ChannelSession::watch_client() {
  co_await channel_->peer_ended();
  cut(Ended::lost);
}

void ChannelSession::turn_end() {
  if (channel_ == nullptr) return;
  if (state() == State::ended) {
    if (reading_ != nullptr) core::TaskGroup::cancel(*reading_);  // with a handler that waits
    return channel_->cut();
  }
  if (writing_ == nullptr && !outbox_.empty()) {
    spawn([this] { return write(); }, writing_);
  } else if (writing_ == nullptr && state() == State::ending && !handling_) {
    channel_->drain(close_code_of(why_ended()));
  }
}

core::Task<void> ChannelSession::write() {
  const Place place{writing_};
  const SessionRef self(*this);
  while (!outbox_.empty()) {
    Outbox now = take_outbox();
    const bool sent = co_await send_all(now);
    // A channel that is closing drops what it is given. Its close frame must still reach the peer, so it is not cut.
    if (!sent && channel_->close_code() == ws::CloseCode::abnormal) {
      cut(Ended::lost);
      co_return;
    }
    sessions_.give_back(std::move(now.bytes()));
    written();
  }
  if (state() == State::ending) mark();
}

core::Task<bool> ChannelSession::send_all(const Outbox& frames) {
  Outbox::Position at;
  for (auto part = frames.next(at); !part.bytes.empty(); part = frames.next(at)) {
    if (part.payload != nullptr) {
      if (!co_await channel_->send(sessions_.shared_message(*part.payload))) co_return false;
      continue;
    }
    while (!part.bytes.empty()) {
      const std::size_t size = first_frame_size(part.bytes);
      if (!co_await channel_->send(ws::Message::Kind::binary, part.bytes.substr(0, size))) co_return false;
      part.bytes.remove_prefix(size);
    }
  }
  co_return true;
}

void ChannelSession::detach() noexcept {
  if (reading_ != nullptr) core::TaskGroup::cancel(*reading_);
  if (writing_ != nullptr) core::TaskGroup::cancel(*writing_);
  channel_ = nullptr;
  cut(Ended::lost);
}

}  // namespace sluice::msg
