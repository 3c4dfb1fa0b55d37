#include "app/components/compression/compression.h"

#include "app/config/difference.h"

namespace sluice::app {

bool CompressionComponent::is_same(const CompressionComponent& other) const {
  return config::first_difference(options, other.options).empty();
}

std::shared_ptr<http::compress::Compression> CompressionComponent::make(const core::Here& here, const Parts&) const {
  return std::make_shared<http::compress::Compression>(options, here.reactor, here.mailbox, here.threads);
}

Readings CompressionComponent::readings_of(http::compress::Compression& compression) const {
  return compression.counters().readings();
}

}  // namespace sluice::app
