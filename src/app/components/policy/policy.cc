#include "app/components/policy/policy.h"

#include "app/components/resident/resident_keys.h"
#include "app/config/difference.h"
#include "gateway/policies/make_policy.h"

namespace sluice::app {

bool PolicyComponent::is_same(const PolicyComponent& other) const {
  return options.options.name.value == other.options.options.name.value &&
         config::same(options.options.value.without_keys(), other.options.options.value.without_keys()) &&
         options.table == other.options.table && options.source == other.options.source &&
         options.upstream == other.options.upstream && options.revocations == other.options.revocations &&
         options.ended == other.options.ended &&
         options.options.value.of<gateway::jwt::Options>().refresh_cookie ==
             other.options.options.value.of<gateway::jwt::Options>().refresh_cookie;
}

std::shared_ptr<gateway::Policy> PolicyComponent::make(const core::Here& here, const Parts& parts) const {
  const auto& [policy, keys, limit, table, source, upstream, revocations, ended] = options;
  return gateway::make_policy(policy.value,
                              {.name = policy.name.value,
                               .reactor = here.reactor,
                               .mailbox = here.mailbox,
                               .mesh = here.mesh,
                               .threads = here.threads,
                               .keys = keys,
                               .source = parts.find(source.get()),
                               .limit = limit,
                               .table = table ? std::make_unique<ResidentKeys>(parts.find(table.get())) : nullptr,
                               .revocations = revocations,
                               .ended = ended,
                               .upstream = parts.find(upstream.get()),
                               .shared_upstream = upstream ? upstream->shared : nullptr});
}

Readings PolicyComponent::readings_of(gateway::Policy& policy) const {
  return labelled(policy.readings(), "policy", options.options.name.value);
}

}  // namespace sluice::app
