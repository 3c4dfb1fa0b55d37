#pragma once

#include <optional>
#include <string_view>

#include "api/body/reader.h"
#include "base/buffer.h"

namespace sluice::api {

// application/x-www-form-urlencoded: one row, which is read when the body is complete.
class FormReader final : public Reader {
 public:
  FormReader(const Shape& shape, const RowLimits& limits) : Reader(shape, limits) {}

  [[nodiscard]] bool single() const override { return true; }

 private:
  Next step() override;
  Next pairs(std::string_view text);
  // Returns nullopt if an escape is invalid.
  [[nodiscard]] std::optional<std::string_view> decoded(std::string_view text);

  Buffer decoded_;  // never moves
  bool read_ = false;
};

}  // namespace sluice::api
