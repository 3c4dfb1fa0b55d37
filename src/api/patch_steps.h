#pragma once

#include <cstddef>
#include <forward_list>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/source.h"
#include "api/table_sql.h"
#include "sql/database.h"

// The statements of a PATCH of a table: one for each set of columns that a body names.
namespace sluice::api {

// A prepared statement of a writing method.
struct WriteStep {
  sql::Statement statement;
  std::vector<Source> sources;  // in the order of the statement's parameters
};

// Immutable, shared by all cores. The database describes only the UPDATE of all columns, because that of fewer columns
// has some of its parameters and returns the same columns.
class PatchPlan {
 public:
  // `all`: the UPDATE of all columns, which outlives this. `read`: prepared from PatchSql::read.
  // `current`: from PatchSql::current, if that is not empty.
  PatchPlan(PatchSql sql, sql::Dialect dialect, const WriteStep& all, sql::Statement read,
            std::optional<sql::Statement> current);

  // One digit for each assignment: 1 if a row of the body requires it.
  void choose(std::span<const Value> row, std::span<const Upload> uploads, std::string& chosen) const;
  // The UPDATE with these assignments.
  [[nodiscard]] WriteStep update(const std::string& chosen) const;

  // Whether a merge patch changes the row's JSON values, and does not only replace them.
  [[nodiscard]] bool merges(std::span<const Value> row) const;
  // Merges the row's objects into the values that `current` has returned. `texts` keeps the results.
  void merge(std::span<const sql::Field> current, std::span<Value> row, std::forward_list<std::string>& texts) const;

  [[nodiscard]] const WriteStep& all() const { return all_; }
  [[nodiscard]] const WriteStep& current() const { return *current_; }
  [[nodiscard]] const WriteStep& read() const { return read_; }

 private:
  [[nodiscard]] std::size_t parameter(std::string_view name) const;
  [[nodiscard]] WriteStep step_of(sql::Statement statement) const;
  // The value of the row for a column of PatchSql::json, if it is an object.
  [[nodiscard]] static const Value* object_in(std::span<const Value> row, const Source& source);

  const PatchSql sql_;
  const sql::Dialect dialect_;
  const WriteStep& all_;
  WriteStep read_;
  std::optional<WriteStep> current_;
  std::vector<std::size_t> places_;  // for each assignment: the index in all_.sources
  std::vector<std::size_t> json_;    // the same for PatchSql::json
};

// The UPDATE statements that one endpoint has used most recently on one core. Statements that fall out lose their ids,
// so connections keep a bounded number of them too.
class PatchSteps {
 public:
  static constexpr std::size_t most = 64;

  // The statement for a row of the body. Keep the result until its transaction has ended.
  [[nodiscard]] std::shared_ptr<const WriteStep> of(const PatchPlan& plan, std::span<const Value> row,
                                                    std::span<const Upload> uploads);

 private:
  std::list<std::pair<std::string, std::shared_ptr<const WriteStep>>> recent_;  // the most recent one is first
  std::string chosen_;
};

}  // namespace sluice::api
