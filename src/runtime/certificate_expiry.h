#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/reading.h"
#include "net/tls/context.h"

namespace sluice::runtime {

// When the certificates that the process uses expire: a metric, and lines in the log when few days are left. May be
// used by all threads.
class CertificateExpiry {
 public:
  struct Used {
    std::string_view use;  // static: "server"; a label of the metric
    net::tls::Expiry expiry;
  };

  // Adds the files of a TLS context, which may be null. `own`, `ca`: the use of its own and of its trusted
  // certificates.
  template <class Context>
  static void add(std::vector<Used>& all, const Context* context, std::string_view own, std::string_view ca) {
    if (context == nullptr) return;
    for (const net::tls::Expiry& one : context->own_expiries()) all.push_back({own, one});
    for (const net::tls::Expiry& one : context->ca_expiries()) all.push_back({ca, one});
  }

  void set(std::vector<Used> used);
  // Logs that a certificate expires in 30, 14, 7 or 1 days, or has expired, once each. To be called often. `now_s`:
  // Unix time.
  void check(std::int64_t now_s);
  [[nodiscard]] Readings readings() const;

 private:
  [[nodiscard]] std::vector<std::string> lines_of(std::int64_t now_s);

  mutable std::mutex mutex_;  // guards the members below
  std::vector<Used> used_;
  std::map<net::tls::Expiry, std::int64_t> told_;  // the last number of days that was logged
};

}  // namespace sluice::runtime
