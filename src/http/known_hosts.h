#pragma once

#include <string>
#include <utility>
#include <vector>

#include "http/handler.h"

namespace sluice::http {

// Answers 421 to requests for other hosts: a web page can give its own name any address (DNS rebinding), and then its
// scripts may read the answers.
class KnownHosts final : public Handler {
 public:
  // `hosts`: as check_host() allows them. Refused exchanges pin `pinned`, which outlives them; null: nothing.
  KnownHosts(std::vector<std::string> hosts, Handler& next, Pinned* pinned = nullptr)
      : hosts_(std::move(hosts)), next_(next), pinned_(pinned) {}

  [[nodiscard]] core::Async<Response> handle(Exchange& exchange) override;

 private:
  const std::vector<std::string> hosts_;
  Handler& next_;
  Pinned* const pinned_;
};

}  // namespace sluice::http
