#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <utility>

#include "core/reactor.h"
#include "core/task.h"
#include "http/binding.h"
#include "http/observer.h"
#include "http/pin.h"
#include "msg/door.h"

namespace sluice::services {

// Asks the filters of a route about the clients of frames over TCP. The filters see a request `GET /` with the client's
// address, its certificate, and its token as `Authorization: Bearer`. They end with the client's session.
class FrameDoor final : public msg::Door {
 public:
  struct Route {
    std::string name;      // for the access log, as the target of the request
    std::uint16_t id = 0;  // for metrics
    bool wants_token = false;
    bool is_logged = true;  // in the access log
  };
  // `observer`: learns of each client that was let in (with status 101) or refused; may be null. It and `reactor`
  // outlive the door.
  FrameDoor(core::Reactor& reactor, http::Binding::Filters filters, Route route, http::Observer* observer)
      : reactor_(reactor),
        filters_(std::move(filters)),
        route_(std::move(route)),
        observer_(observer),
        pinned_(route_.is_logged) {}

  [[nodiscard]] bool wants_token() const override { return route_.wants_token; }
  [[nodiscard]] core::Task<std::expected<msg::Admission, msg::Denial>> admit(const msg::Caller& caller) override;

 private:
  struct Pinned final : http::Pinned {
    explicit Pinned(bool is_logged) : http::Pinned(nullptr, is_logged) {}
    void unpinned() override {}
  };

  core::Reactor& reactor_;
  const http::Binding::Filters filters_;
  const Route route_;
  http::Observer* const observer_;
  Pinned pinned_;
};

}  // namespace sluice::services
