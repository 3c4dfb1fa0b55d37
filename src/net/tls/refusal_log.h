#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/log.h"
#include "base/time.h"

namespace sluice::net::tls {

// Logs the clients of one core whose certificates are refused. Clients choose how often that is, so it writes at most
// one line a second.
class RefusalLog {
 public:
  void refused(std::string_view client, std::string_view why, Instant now) {
    if (now < next_) {
      ++unlogged_;
      return;
    }
    std::string line = "tls: refused the certificate of " + std::string(client) + ": " + std::string(why);
    if (unlogged_ != 0) line += "; " + std::to_string(unlogged_) + " more before that were not logged";
    log_error(line);
    unlogged_ = 0;
    next_ = now + 1s;
  }

 private:
  Instant next_{};
  std::uint64_t unlogged_ = 0;
};

}  // namespace sluice::net::tls
