#pragma once

#include <memory>

#include "base/buffer.h"
#include "core/alarm.h"
#include "http/exchange.h"
#include "http/response.h"
#include "http/standing.h"
#include "rooms/door.h"

namespace sluice::rooms {

// A client that follows a room by Server-Sent Events.
class Stream final : public http::BodySource, public Seat {
 public:
  Stream(std::shared_ptr<Door> door, const http::Exchange& exchange);
  ~Stream() override;

  // The first event.
  void greet(const Rooms::Joined& joined);
  core::Async<Result<Progress>> pull(Buffer& out) override;

 private:
  void news() override { alarm_.ring(); }
  void expel() override;
  void server_ends() override { expel(); }
  // Returns false if the stream ends.
  bool take(Buffer& out);
  core::Task<Result<Progress>> wait(Buffer& out);

  const std::shared_ptr<Door> door_;
  const http::Standing standing_;  // of the client's credentials
  core::Alarm alarm_;
  Buffer greeting_;
  std::uint64_t epoch_ = 0;
  bool is_over_ = false;
};

}  // namespace sluice::rooms
