#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/body/row_reader.h"

namespace sluice::api {

// The names of a Shape as a tree, for reading nested objects, and a row's values in the order of the names.
class FieldTree {
 public:
  static constexpr std::uint32_t none = UINT32_MAX;

  struct Node {
    std::string name;
    std::uint32_t slot = none;   // index of its value if the node itself is named
    bool plain = false;          // its name has no escapes in JSON
    bool open = false;           // its members may have any name, because it or an enclosing object is named
    std::uint32_t first = none;  // guesses from the last row: its first child, and the sibling after it
    std::uint32_t next = none;
    std::uint64_t seen = 0;               // the last row that contained it
    std::vector<std::uint32_t> children;  // sorted by name

    [[nodiscard]] bool named() const { return slot != none; }
  };

  explicit FieldTree(const Shape& shape);

  [[nodiscard]] bool allows_unknown() const { return allow_unknown_; }
  [[nodiscard]] Node& root() { return nodes_[0]; }
  [[nodiscard]] Node& at(std::uint32_t index) { return nodes_[index]; }
  // Returns `none` if the node has no child of this name.
  [[nodiscard]] std::uint32_t child_of(const Node& node, std::string_view name) const;
  // The node of a column: the root's child of this name, or the node at its path ("a.b").
  [[nodiscard]] std::uint32_t find(std::string_view name) const;
  // The same for a text format, which cannot contain objects: finds only nodes with a slot.
  [[nodiscard]] std::uint32_t column(std::string_view name) const;

  // Begins a row, in which all values are missing.
  void clear();
  void set(const Node& node, Value value) { values_[node.slot] = value; }
  // Copies the values of names that the Shape contains twice.
  void complete() {
    for (const auto& [to, from] : copies_) values_[to] = values_[from];
  }
  [[nodiscard]] std::span<const Value> values() const { return values_; }

 private:
  std::vector<Node> nodes_;
  std::vector<Value> values_;
  bool allow_unknown_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> copies_;
};

// A name for a message, cut if it is long.
[[nodiscard]] std::string shown(std::string_view name);

}  // namespace sluice::api
