#include "runtime/gatherer.h"

#include <new>
#include <utility>

#include "base/version.h"

namespace sluice::runtime {
namespace {

constexpr Duration readiness_wait = 2s;
constexpr Duration metrics_wait = 5s;

}  // namespace

core::Task<std::expected<ReadingSums, std::string>> Gatherer::gather() {
  RequestMetrics requests;
  ReadingSums sums;
  sums.add({
      gauge("sluice_build_info", "The version that runs.", 1, label("version", version)),
      gauge("sluice_cores", "Worker threads.", static_cast<double>(per_core_.size())),
  });
  const Instant deadline = core_.reactor().now() + metrics_wait;
  for (unsigned i = 0; i < per_core_.size(); ++i) {
    Snapshot snapshot;
    if (i == core_.index()) {
      snapshot = per_core_[i]->snapshot();
    } else {
      auto answer = co_await core_.mesh().call(i, deadline, [one = per_core_[i]] { return one->snapshot(); });
      if (!answer && answer.error().code == Errc::timed_out) {
        co_return std::unexpected("Core " + std::to_string(i) + " has not answered within 5 s.");
      }
      if (!answer && answer.error().code == Errc::system) throw std::bad_alloc();
      if (!answer) continue;  // that core has ended
      snapshot = std::move(*answer);
    }
    requests.add(snapshot.requests);
    sums.add(std::move(snapshot.readings));
  }
  for (const auto& readings : more_) sums.add(readings());
  sums.add(co_await process_.gather());
  sums.add(readings_of(requests, per_core_[core_.index()]->route_names()));
  co_return sums;
}

core::Task<Readiness> Gatherer::find_readiness() {
  if (per_core_[core_.index()]->leaving()) co_return Readiness{false, "The server is draining."};
  const Instant deadline = core_.reactor().now() + readiness_wait;
  Readiness all;
  for (unsigned i = 0; i < per_core_.size(); ++i) {
    auto found = co_await core_.mesh().call(i, deadline,
                                            [one = per_core_[i], deadline] { return one->find_readiness(deadline); });
    if (!found) co_return Readiness{false, "Core " + std::to_string(i) + " does not answer."};
    if (!found->is_ready) co_return std::move(*found);
    if (!found->text.empty()) all.text = std::move(found->text);  // nearly the same on all cores
  }
  co_return all;
}

}  // namespace sluice::runtime
