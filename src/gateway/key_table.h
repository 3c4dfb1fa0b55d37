#pragma once

#include <string>
#include <string_view>

namespace sluice::gateway {

// One core's view of a table that a policy reads, such as a resident table. Other code keeps the table up to date.
class KeyTable {
 public:
  virtual ~KeyTable() = default;
  // False if the table is stale.
  [[nodiscard]] virtual bool is_fresh() const = 0;
  // Puts the row with this key into `row` as a JSON object. Returns false if there is no such row.
  [[nodiscard]] virtual bool find(std::string_view key, std::string& row) = 0;
  [[nodiscard]] virtual bool contains(std::string_view key) = 0;
  // Changes whenever rows may have changed. The view is valid until the next change.
  [[nodiscard]] virtual std::string_view version() const = 0;
};

}  // namespace sluice::gateway
