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

// A Shape's names as the tree that nested objects are read by, and a row's values in the order of the names.
class FieldTree {
 public:
  static constexpr std::uint32_t none = UINT32_MAX;

  struct Node {
    std::string name;
    std::uint32_t slot = none;   // of its value, if it is named itself
    bool plain = false;          // its name reads the same in JSON
    bool open = false;           // what lies in it may have any name: it, or what it lies in, is named itself
    std::uint32_t first = none;  // the child and the sibling that came next in the last row: likely so in this one
    std::uint32_t next = none;
    std::uint64_t seen = 0;               // the row that it was last seen in
    std::vector<std::uint32_t> children;  // by name

    [[nodiscard]] bool named() const { return slot != none; }
  };

  explicit FieldTree(const Shape& shape);

  [[nodiscard]] bool allows_unknown() const { return allow_unknown_; }
  [[nodiscard]] Node& root() { return nodes_[0]; }
  [[nodiscard]] Node& at(std::uint32_t index) { return nodes_[index]; }
  // none: it has no such child.
  [[nodiscard]] std::uint32_t child_of(const Node& node, std::string_view name) const;
  // A column's: the root's child of this name, or by its path ("a.b").
  [[nodiscard]] std::uint32_t find(std::string_view name) const;
  // Likewise of text, which no object can be read from: one that is named itself.
  [[nodiscard]] std::uint32_t column(std::string_view name) const;

  // Begins a row: everything is missing.
  void clear();
  void set(const Node& node, Value value) { values_[node.slot] = value; }
  // Names that are there twice get their values.
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

// A name for a message: cut where it is long.
[[nodiscard]] std::string shown(std::string_view name);

}  // namespace sluice::api
