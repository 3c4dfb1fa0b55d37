#include <algorithm>
#include <memory>

#include "app/components/service/service.h"
#include "app/components/service/tables.h"
#include "app/config/checks.h"
#include "app/prepare/preparation.h"
#include "base/contains.h"
#include "gateway/limits/rate_limit.h"

namespace sluice::app {
namespace {

// The contexts of the service in the plan that is served, if there is one.
std::shared_ptr<ServiceComponent::Contexts> contexts_of(const ServiceEntry& entry, const Preparation& preparation) {
  if (preparation.previous != nullptr) {
    for (const auto& before : preparation.previous->all<ServiceComponent>()) {
      if (before->name() == entry.name) return before->contexts();
    }
  }
  return std::make_shared<ServiceComponent::Contexts>(preparation.cores);
}

}  // namespace

msg::SessionOptions ServiceOptions::session_options() const {
  const auto limit = rate.empty() ? gateway::limits::Rate{.interval_ns = 0}
                                  : gateway::limits::rate_of(*gateway::limits::parse_rate(rate), burst);
  return {.most_body = static_cast<std::uint32_t>(most_body.bytes),
          .most_queued = most_queued.bytes,
          .slow_receiver = slow_receiver,
          .heartbeat = heartbeat,
          .idle_timeout = idle_timeout.value,
          .sessions = sessions,
          .sessions_per_address = sessions_per_address,
          .message_interval = Duration(limit.interval_ns),
          .message_burst = static_cast<std::uint32_t>(limit.burst),
          .memory = memory.bytes};
}

void ServiceTables::check(config::Checks& checks) {
  for (const auto& [name, options] : checks.options.services) {
    if (!has_service(name.value)) {
      checks.complain(name.position, "there is no service \"" + name.value + '"', describe_services());
    }
    if (options.burst && options.rate.empty()) {
      checks.complain(name.position, "\"burst\" needs a \"rate\"");
    }
    if (options.heartbeat >= options.idle_timeout.value) {
      checks.complain(options.idle_timeout.position.line != 0 ? options.idle_timeout.position : name.position,
                      "\"idle_timeout\" must be longer than \"heartbeat\"");
    }
  }
}

std::expected<void, Away> ServiceTables::prepare(Preparation& preparation) {
  for (const ServiceEntry& entry : service_entries()) {
    const auto& tables = preparation.options().services;
    const auto table =
        std::ranges::find(tables, entry.name, [](const auto& one) -> const std::string& { return one.name.value; });
    (void)preparation.plan.add(
        std::make_shared<ServiceComponent>(entry, table != tables.end() ? table->value : ServiceOptions{},
                                           contexts_of(entry, preparation)),
        preparation.previous);
  }
  return {};
}

}  // namespace sluice::app
