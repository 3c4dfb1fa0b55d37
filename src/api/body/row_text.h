#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/body/row_reader.h"
#include "base/buffer.h"

namespace sluice::api {

// Writes a row's values as the JSON object that would contain them. It is used for formats with columns: there, "a.b"
// is the member "b" of the object "a". Missing values are left out, and so are objects that would be empty.
class RowText {
 public:
  explicit RowText(const Shape& shape);
  // The result is valid until the next call.
  [[nodiscard]] std::string_view write(std::span<const Value> row);

 private:
  struct Node {
    std::string name;  // as written in JSON, in quotes and with its colon
    std::string raw;
    std::size_t value = SIZE_MAX;  // index in the row
    std::vector<std::size_t> children;
  };

  bool write(const Node& node, std::span<const Value> row);

  std::vector<Node> nodes_;  // the first is the row itself
  Buffer text_;
};

}  // namespace sluice::api
