#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sql/set/table.h"

// The columns of a database's constraints, so that an answer can name the field that violates one.
namespace sluice::sql {

// Immutable, shared by all cores.
class Constraints {
 public:
  struct Constraint {
    std::string table;  // without its schema
    std::string name;
    std::vector<std::string> columns;
  };

  explicit Constraints(std::vector<Constraint> all) : all_(std::move(all)) {}
  // Empty if the constraint is unknown, or if `table` is empty and constraints with this name differ in their columns.
  [[nodiscard]] std::span<const std::string> columns_of(std::string_view table, std::string_view name) const;

 private:
  std::vector<Constraint> all_;
};

// The columns of a broken rule, from the rule itself or from `known`, which may be null.
[[nodiscard]] std::span<const std::string> broken_columns(const BrokenRule& rule, const Constraints* known);

[[nodiscard]] core::Task<Result<std::shared_ptr<const Constraints>>> read_constraints(Database& database,
                                                                                      Dialect dialect);

// The names in an SQL expression: columns, but also functions and keywords. String literals are skipped.
[[nodiscard]] std::vector<std::string> names_in(std::string_view expression);

// SQLite: the named CHECK constraints of a CREATE TABLE.
[[nodiscard]] std::vector<Constraints::Constraint> named_checks(std::string_view table, std::string_view create);

}  // namespace sluice::sql
