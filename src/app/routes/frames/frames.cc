// [[frames]]
#include "app/components/frames/frames.h"

#include <map>
#include <memory>
#include <utility>

#include "app/config/checks.h"
#include "app/prepare/preparation.h"
#include "app/routes/frames/tables.h"
#include "app/routes/shape.h"
#include "base/contains.h"
#include "gateway/policies/options.h"

namespace sluice::app {

void FramesTables::check(config::Checks& checks) {
  std::map<std::string, Position> addresses;
  for (const FramesOptions& frames : checks.options.frames) {
    checks.check_use(frames.use);
    if (frames.listen.empty()) checks.complain(frames.position, "\"listen\" has no address");
    for (const auto& listen : frames.listen) {
      // Port 0 too may be there once: a reload finds its table by the address.
      if (!addresses.emplace(listen.value, listen.position).second) {
        checks.complain(listen.position, listen.value + " stands twice in [[frames]]");
      }
    }
    const Located<std::string>& service = frames.service;
    if (!service.value.empty() && !has_service(service.value)) {
      checks.complain(service.position, "there is no service \"" + service.value + '"', describe_services());
    }
    if (frames.tls.value && !checks.options.server.tls) {
      checks.complain(frames.tls.position, "there is no certificate for these addresses", "add [server.tls]");
    }
    const auto uses = [&](gateway::PolicyType type) { return checks.options.uses(frames.use, type); };
    if (uses(gateway::policy_type<gateway::jwt::Options>) && !frames.token.value) {
      checks.complain(frames.position, "a policy of \"use\" wants a token, and clients cannot send one",
                      "add token = true: a client's first frame is its token");
    }
    if (uses(gateway::policy_type<gateway::cors::Options>)) {
      checks.complain(frames.position, "a policy of type \"cors\" has no effect on frames");
    }
  }
}

std::vector<Shape> FramesTables::shapes(const FramesOptions&) { return {}; }

std::expected<void, Away> FramesTables::prepare(Preparation& preparation) {
  Plan& plan = preparation.plan;
  for (const FramesOptions& options : preparation.options().frames) {
    (void)preparation.security(options.use);
    const auto services = plan.all<ServiceComponent>();
    const auto service = std::ranges::find(services, options.service.value, &ServiceComponent::name);
    if (service == services.end()) continue;  // an error
    const Route::Id route = plan.add_name("[[frames]] " + options.service.value);
    (void)plan.add(std::make_shared<FramesComponent>(options, plan.policies_of(options.use), route, *service),
                   preparation.previous);
  }
  return {};
}

}  // namespace sluice::app
