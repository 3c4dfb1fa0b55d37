#include "runtime/certificates.h"

#include <chrono>
#include <ctime>
#include <utility>

#include "base/log.h"

namespace sluice::runtime {
namespace {

Instant monotonic_now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return Instant(std::chrono::seconds(time.tv_sec) + Duration(time.tv_nsec));
}

}  // namespace

Certificates::Certificates(std::vector<std::string> files, Make make, Context context)
    : make_(std::move(make)),
      context_(std::move(context)),
      tickets_(net::tls::TicketKeys::make()),
      watch_(std::move(files)) {}

bool Certificates::reload() {
  watch_.reading();
  auto made = make_();
  if (!made) {
    log_error("certificates: " + made.error() + "; those from before stay in use");
    return false;
  }
  for (const auto& warning : (*made)->warnings()) log_error("certificates: " + warning.text);
  log_error("certificates: read again");
  context_ = std::move(*made);
  return true;
}

bool Certificates::tend(Instant now) {
  bool fresh = false;
  const auto rotation = std::chrono::seconds(net::tls::TicketKeys::rotation_s);
  if (rotate_at_ == Instant{}) rotate_at_ = now + rotation;
  if (now >= rotate_at_) {
    tickets_ = tickets_->rotated();
    rotate_at_ = now + rotation;
    fresh = true;
  }
  if (watch_.changed() && reload()) fresh = true;
  return fresh;
}

bool Certificates::tend(bool told) { return told ? reload() : tend(monotonic_now()); }

}  // namespace sluice::runtime
