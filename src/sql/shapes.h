#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "sql/database.h"
#include "sql/encode/encoder.h"

namespace sluice::sql {

// A generated statement. The first `shown` of its columns are in the answer.
struct Shape {
  Statement statement;
  std::size_t shown = 0;
  std::array<std::unique_ptr<const Layout>, 4> layouts{};  // of the shown columns, by Format; made when first needed
};

// One core's most recently used generated statements, by text. A statement that leaves gives its id back, so that
// connections replace it.
class Shapes {
 public:
  explicit Shapes(std::shared_ptr<StatementIds> ids) : ids_(std::move(ids)) {}

  void resize(std::size_t most) { most_ = std::max<std::size_t>(most, 1); }
  [[nodiscard]] std::size_t size() const { return by_text_.size(); }
  [[nodiscard]] std::uint64_t evicted() const { return evicted_; }

  // Null if no shape has this text.
  [[nodiscard]] std::shared_ptr<Shape> find(std::string_view text);
  // Gives the statement its id. Precondition: find() has not found its text.
  std::shared_ptr<Shape> add(Shape shape);

 private:
  using List = std::list<std::shared_ptr<Shape>>;

  std::shared_ptr<StatementIds> ids_;
  std::size_t most_ = 256;
  std::uint64_t evicted_ = 0;
  List used_;                                                     // the latest first
  std::unordered_map<std::string_view, List::iterator> by_text_;  // views into the statements
};

}  // namespace sluice::sql
