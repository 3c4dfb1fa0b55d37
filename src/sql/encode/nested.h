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

// How a value of a type is written in JSON, with everything that does not depend on the value made beforehand.
struct ValuePlan {
  explicit ValuePlan(const Type& type);

  Form form;
  char delimiter;                 // array
  std::size_t depth = 0;          // levels of arrays and composites, this one included
  std::vector<std::string> keys;  // composite: `{"first":`, then `,"next":`, parallel to `parts`
  std::vector<ValuePlan> parts;   // composite: the attributes; array: the one element
};

// Arrays and composites: PostgreSQL's text form read in one pass and written as to_json writes it. A value whose text
// does not parse is written as a string instead; what it stands in stays valid JSON.
class NestedWriter {
 public:
  // `scratch` holds unescaped elements, one Buffer for each level: at least the plan's depth.
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
