#pragma once

#include <string>
#include <utility>
#include <vector>

#include "http/handler.h"

namespace sluice::http {

// Keeps web pages of others out. Answers 421 to requests for other hosts: a web page can give its own name any address
// (DNS rebinding), and then its scripts may read the answers. If `same_origin`, it also answers 403 to requests that
// write and come from a page of another origin, which any page may send by a form.
class KnownHosts final : public Handler {
 public:
  // `hosts`: as check_host() allows them; empty: all. Refused exchanges pin `pinned`, which outlives them; null:
  // nothing.
  KnownHosts(std::vector<std::string> hosts, bool same_origin, Handler& next, Pinned* pinned = nullptr)
      : hosts_(std::move(hosts)), same_origin_(same_origin), next_(next), pinned_(pinned) {}

  [[nodiscard]] core::Async<Response> handle(Exchange& exchange) override;

 private:
  [[nodiscard]] bool knows_host(const Request& request) const;

  const std::vector<std::string> hosts_;
  const bool same_origin_;
  Handler& next_;
  Pinned* const pinned_;
};

}  // namespace sluice::http
