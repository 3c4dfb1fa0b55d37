#pragma once

#include <expected>
#include <memory>
#include <string>
#include <string_view>

#include "core/task.h"
#include "msg/frame.h"
#include "msg/session.h"

namespace sluice::net::tls {
struct PeerCertificate;
}

namespace sluice::msg {

// A client over TCP whose session is not open yet. The views are valid until it has been admitted or refused.
struct Caller {
  std::string_view peer;  // its address, without its port; empty over a unix socket
  bool secure = false;
  const net::tls::PeerCertificate* certificate = nullptr;  // verified; null: it has shown none
  std::string_view token;                                  // of its first frame; empty if the door wants none
};

// A client that may come in.
struct Admission {
  Handshake handshake;
  core::Task<void> standing = {};        // returns when its credentials have ended; empty: they last
  std::shared_ptr<void> held = nullptr;  // released when its session has ended
};

struct Denial {
  ErrorCode code = ErrorCode::unauthorized;
  std::string text;  // for the client
};

// Decides about clients before their sessions are open. Belongs to one core; its sessions keep it.
class Door {
 public:
  virtual ~Door() = default;
  // Whether a client's first frame must be a token (token_id). It has SessionOptions::handshake_timeout to send it.
  [[nodiscard]] virtual bool wants_token() const = 0;
  [[nodiscard]] virtual core::Task<std::expected<Admission, Denial>> admit(const Caller& caller) = 0;
};

}  // namespace sluice::msg
