#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/buffer.h"
#include "sql/encode/writer.h"
#include "sql/rows.h"

namespace sluice::sql::encode {

// How a value of a type is written in JSON. Everything that does not depend on the value is precomputed.
struct ValuePlan {
  explicit ValuePlan(const Type& type);

  Form form;
  char delimiter;                 // array
  std::size_t depth = 0;          // levels of arrays and composites, including this one
  std::vector<std::string> keys;  // composite: `{"first":`, then `,"next":`, parallel to `parts`
  std::vector<ValuePlan> parts;   // composite: the attributes; array: the element
};

// Reads PostgreSQL's text form of arrays and composite types in one pass and writes it as to_json does. A value whose
// text cannot be parsed is written as a string, so the surrounding JSON stays valid.
class NestedWriter {
 public:
  // `scratch` holds unescaped elements, with one Buffer per level: at least as many as the plan's depth.
  NestedWriter(Writer& writer, std::span<Buffer> scratch, bool one_line)
      : writer_(writer), scratch_(scratch), one_line_(one_line) {}

  void value(const ValuePlan& plan, std::string_view text);

 private:
  [[nodiscard]] bool array(const ValuePlan& plan, std::string_view text);
  [[nodiscard]] bool vector(const ValuePlan& plan, std::string_view text);
  [[nodiscard]] bool composite(const ValuePlan& plan, std::string_view text);

  Writer& writer_;
  std::span<Buffer> scratch_;
  bool one_line_;
};

}  // namespace sluice::sql::encode
