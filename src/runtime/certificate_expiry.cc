#include "runtime/certificate_expiry.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"

namespace sluice::runtime {
namespace {

constexpr std::int64_t day_s = 24 * 60 * 60;
constexpr std::array<std::int64_t, 5> told_at = {0, 1, 7, 14, 30};  // days before; 0: has expired

std::string date_of(std::int64_t unix_s) {
  const std::time_t time = unix_s;
  std::tm parts{};
  gmtime_r(&time, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &parts)};
}

}  // namespace

void CertificateExpiry::set(std::vector<Used> used) {
  const auto key = [](const Used& one) { return std::pair(one.use, std::string_view(one.expiry.file)); };
  std::ranges::sort(used, {}, key);
  const auto repeated = std::ranges::unique(used, {}, key);
  used.erase(repeated.begin(), repeated.end());
  const std::lock_guard lock(mutex_);
  used_ = std::move(used);
}

void CertificateExpiry::check(std::int64_t now_s) {
  for (const std::string& line : lines_of(now_s)) log_error(line);
}

std::vector<std::string> CertificateExpiry::lines_of(std::int64_t now_s) {
  std::vector<std::string> lines;
  const std::lock_guard lock(mutex_);
  for (const auto& [use, expiry] : used_) {
    const std::int64_t left_s = expiry.unix_s - now_s;
    const std::int64_t days = left_s <= 0 ? 0 : (left_s + day_s - 1) / day_s;
    const auto* const due = std::ranges::lower_bound(told_at, days);
    if (due == told_at.end()) continue;
    const auto [told, is_new] = told_.try_emplace(expiry, *due);
    if (!is_new && told->second <= *due) continue;
    told->second = *due;
    lines.push_back(days == 0
                        ? fmt::format("certificates: one in {} has expired on {}", expiry.file, date_of(expiry.unix_s))
                        : fmt::format("certificates: one in {} expires in {} {}, on {}", expiry.file, days,
                                      days == 1 ? "day" : "days", date_of(expiry.unix_s)));
  }
  return lines;
}

Readings CertificateExpiry::readings() const {
  Readings all;
  const std::lock_guard lock(mutex_);
  for (const auto& [use, expiry] : used_) {
    all.push_back(gauge("sluice_tls_certificate_expiry_timestamp_seconds",
                        "Unix time at which the first certificate in the file expires.",
                        static_cast<double>(expiry.unix_s),
                        label("certificate", expiry.file) + "," + label("use", use)));
  }
  return all;
}

}  // namespace sluice::runtime
