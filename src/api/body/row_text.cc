#include "api/body/row_text.h"

#include <algorithm>

#include "base/json.h"

namespace sluice::api {

RowText::RowText(const Shape& shape) : nodes_(1) {
  for (std::size_t value = 0; value < shape.names.size(); ++value) {
    std::size_t at = 0;
    std::string_view rest = shape.names[value];
    if (rest.empty()) continue;  // the whole row
    for (;;) {
      const auto dot = rest.find('.');
      const std::string_view name = rest.substr(0, dot);
      const auto& children = nodes_[at].children;
      const auto known = std::ranges::find_if(children, [&](std::size_t child) { return nodes_[child].raw == name; });
      if (known != children.end()) {
        at = *known;
      } else {
        Buffer quoted;
        quoted.append("\"");
        append_json_escaped(quoted, name);
        quoted.append("\":");
        const std::size_t child = nodes_.size();
        nodes_.push_back(
            {.name = std::string(quoted.view()), .raw = std::string(name), .value = SIZE_MAX, .children = {}});
        nodes_[at].children.push_back(child);
        at = child;
      }
      if (dot == rest.npos) break;
      rest.remove_prefix(dot + 1);
    }
    if (nodes_[at].value == SIZE_MAX) nodes_[at].value = value;  // if a name occurs twice, both have the same value
  }
}

std::string_view RowText::write(std::span<const Value> row) {
  text_.clear();
  if (!write(nodes_[0], row)) text_.append("{}");
  return text_.view();
}

// Returns false if the node has no values.
bool RowText::write(const Node& node, std::span<const Value> row) {
  if (node.value != SIZE_MAX && row[node.value].kind != Value::Kind::missing) {
    const Value& value = row[node.value];
    switch (value.kind) {
      case Value::Kind::null:
        text_.append("null");
        break;
      case Value::Kind::string:
        text_.append("\"");
        append_json_escaped(text_, value.text);
        text_.append("\"");
        break;
      default:
        text_.append(value.text);
    }
    return true;
  }
  bool any = false;
  for (const std::size_t index : node.children) {
    const Node& child = nodes_[index];
    const std::size_t before = text_.size();
    text_.append(any ? "," : "{");
    text_.append(child.name);
    if (write(child, row)) {
      any = true;
    } else {
      text_.truncate(before);
    }
  }
  if (any) text_.append("}");
  return any;
}

}  // namespace sluice::api
