#pragma once

#include "core/alarm.h"
#include "core/task.h"
#include "msg/session.h"
#include "ws/channel.h"

namespace sluice::msg {

// Runs a session over a WebSocket, until it ends. Each binary message of the client holds one or more whole frames; the
// service sends each frame in a binary message of its own. `channel` and `sessions` outlive the task.
[[nodiscard]] core::Task<void> run_session(Sessions& sessions, ws::Channel& channel, Handshake handshake);

class ChannelSession final : public Session {
 public:
  ChannelSession(Sessions& sessions, ws::Channel& channel, Handshake handshake);

  [[nodiscard]] bool secure() const override { return handshake_.secure; }
  [[nodiscard]] const Handshake* handshake() const override { return &handshake_; }

 private:
  friend core::Task<void> run_session(Sessions& sessions, ws::Channel& channel, Handshake handshake);
  ~ChannelSession() override = default;
  void turn_end() override;
  core::Task<void> watch_client() override;

  // Receives until the conversation is over. A task of its own, so that the end of the session can cancel it.
  core::Task<void> run();
  core::Task<void> receive();
  core::Task<void> handle_frames(FrameDecoder& decoder, Buffer& input);
  core::Task<void> write();
  // Returns false if the conversation is over.
  core::Task<bool> send_all(const Outbox& frames);
  // The channel is about to be destroyed.
  void detach() noexcept;

  ws::Channel* channel_;  // null after its end
  const Handshake handshake_;
  core::TaskGroup::Member* reading_ = nullptr;
  core::TaskGroup::Member* writing_ = nullptr;
  core::Alarm over_;  // rings when reading_ has ended
};

}  // namespace sluice::msg
