#pragma once

#include <memory>
#include <utility>

#include "app/components/component.h"
#include "http/compress/compression.h"

namespace sluice::app {

// [compression]
class CompressionComponent final : public ComponentOf<CompressionComponent, http::compress::Compression> {
 public:
  explicit CompressionComponent(http::compress::Options of) : options(std::move(of)) {}

  [[nodiscard]] bool is_same(const CompressionComponent& other) const;
  const http::compress::Options options;

 private:
  std::shared_ptr<http::compress::Compression> make(const core::Here& here, const Parts& parts) const override;
  Readings readings_of(http::compress::Compression& compression) const override;
};

}  // namespace sluice::app
