#include "services/service_set.h"

#include <ranges>
#include <utility>

namespace sluice::services {

ServiceSet::ServiceSet(const core::Here& here, const msg::SessionOptions& options, std::vector<msg::Context*>& contexts)
    : sessions_(here.reactor, here.mesh.core(), dispatcher_, this, options),
      context_(here, tasks_, sessions_, contexts) {
  contexts[here.mesh.core()] = &context_;
}

void ServiceSet::set_up(const std::vector<MakeService>& make) {
  for (const auto& make_service : make) make_service(context_);
  for (const auto& entry : context_.services()) entry.service->configure(context_);
  for (const auto& entry : context_.services()) entry.service->wire(dispatcher_);
}

void ServiceSet::start() {
  if (std::exchange(is_running_, true)) return;
  for (const auto& entry : context_.services()) entry.service->start();
}

void ServiceSet::stop() {
  if (!std::exchange(is_running_, false)) return;
  sessions_.cut();
  for (auto& entry : std::views::reverse(context_.services())) entry.service->stop();
  tasks_.cancel();
}

}  // namespace sluice::services
