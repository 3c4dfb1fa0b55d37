#include "api/body/field_tree.h"

#include <algorithm>

namespace sluice::api {

FieldTree::FieldTree(const Shape& shape) : nodes_(1), values_(shape.names.size()), allow_unknown_(shape.allow_unknown) {
  for (std::uint32_t slot = 0; slot < shape.names.size(); ++slot) {
    std::uint32_t index = 0;
    const std::string_view path = shape.names[slot];
    for (std::size_t at = 0; !path.empty() && at != std::string_view::npos;) {
      const auto dot = path.find('.', at);
      const std::string_view name = path.substr(at, dot == std::string_view::npos ? dot : dot - at);
      at = dot == std::string_view::npos ? dot : dot + 1;
      std::uint32_t child = child_of(nodes_[index], name);
      if (child == none) {
        child = static_cast<std::uint32_t>(nodes_.size());
        Node& node = nodes_.emplace_back();
        node.name = name;
        node.plain = std::ranges::none_of(
            name, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == '"' || c == '\\'; });
        auto& siblings = nodes_[index].children;
        siblings.insert(std::ranges::lower_bound(
                            siblings, name, {}, [this](std::uint32_t i) -> std::string_view { return nodes_[i].name; }),
                        child);
      }
      index = child;
    }
    Node& node = nodes_[index];
    if (node.named()) {
      copies_.emplace_back(slot, node.slot);
    } else {
      node.slot = slot;
    }
  }
  // Children are stored after their parents.
  for (Node& node : nodes_) {
    node.open = node.open || node.named() || shape.allow_unknown;
    for (const std::uint32_t child : node.children) nodes_[child].open = node.open;
  }
}

std::uint32_t FieldTree::child_of(const Node& node, std::string_view name) const {
  const auto name_of = [this](std::uint32_t i) -> std::string_view { return nodes_[i].name; };
  const auto found = std::ranges::lower_bound(node.children, name, {}, name_of);
  return found != node.children.end() && name_of(*found) == name ? *found : none;
}

std::uint32_t FieldTree::find(std::string_view name) const {
  if (const auto whole = child_of(nodes_[0], name); whole != none) return whole;
  std::uint32_t index = 0;
  for (std::string_view rest = name;;) {
    const auto dot = rest.find('.');
    index = child_of(nodes_[index], rest.substr(0, dot));
    if (index == none || dot == std::string_view::npos) return index;
    rest.remove_prefix(dot + 1);
  }
}

std::uint32_t FieldTree::column(std::string_view name) const {
  const std::uint32_t index = find(name);
  return index != none && nodes_[index].named() ? index : none;
}

void FieldTree::clear() { std::ranges::fill(values_, Value{}); }

std::string shown(std::string_view name) {
  constexpr std::size_t longest = 64;
  if (name.size() <= longest) return std::string(name);
  std::size_t size = longest;
  while (size != 0 && (static_cast<unsigned char>(name[size]) & 0xc0) == 0x80) --size;  // never cuts a character
  return std::string(name.substr(0, size)) + "...";
}

}  // namespace sluice::api
