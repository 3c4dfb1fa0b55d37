#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sql/set/table.h"

// Which columns a database's constraints are about, so that an answer can name the field that has broken one.
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
  // Empty: nothing is known of it. `table` may be empty, where constraints of one name are about the same columns.
  [[nodiscard]] std::span<const std::string> columns_of(std::string_view table, std::string_view name) const;

 private:
  std::vector<Constraint> all_;
};

// The columns that a broken rule is about, as far as it says so itself or `known`, which may be null, does.
[[nodiscard]] std::span<const std::string> broken_columns(const BrokenRule& rule, const Constraints* known);

// Of all tables, read once.
[[nodiscard]] core::Task<Result<std::shared_ptr<const Constraints>>> read_constraints(Database& database,
                                                                                      Dialect dialect);

// The names in an SQL expression: of columns, and of functions and keywords too. Texts are passed over.
[[nodiscard]] std::vector<std::string> names_in(std::string_view expression);

// SQLite: the CHECKs of a CREATE TABLE that have a name.
[[nodiscard]] std::vector<Constraints::Constraint> named_checks(std::string_view table, std::string_view create);

}  // namespace sluice::sql
