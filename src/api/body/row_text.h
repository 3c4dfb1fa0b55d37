#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/body/row_reader.h"
#include "base/buffer.h"

namespace sluice::api {

// Writes a row's values as the JSON object that they would have been read from: for formats that have columns, where
// "a.b" lies in the object "a". What is missing is left out, and an object that would have nothing in it.
class RowText {
 public:
  explicit RowText(const Shape& shape);
  // Lasts until the next call.
  [[nodiscard]] std::string_view write(std::span<const Value> row);

 private:
  struct Node {
    std::string name;  // as it is written, in quotes and with its colon
    std::string raw;
    std::size_t value = SIZE_MAX;  // in the row
    std::vector<std::size_t> children;
  };

  bool write(const Node& node, std::span<const Value> row);

  std::vector<Node> nodes_;  // the first is the row itself
  Buffer text_;
};

}  // namespace sluice::api
