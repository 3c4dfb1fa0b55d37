#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "api/resident/value.h"
#include "sql/database.h"
#include "sql/rows.h"

namespace sluice::api::resident {

// The greatest version among the rows that have been read. Later changes have greater versions.
class Since {
 public:
  // Returns false if the value is not of this type. NULL is ignored. Precondition: the type is ordered.
  [[nodiscard]] bool note(const ValueType& type, const sql::Field& field);

  // Whether any row had a version.
  [[nodiscard]] bool known() const { return known_; }
  // The value as the database wrote it. The result is a view. Precondition: known().
  [[nodiscard]] sql::Argument argument() const;

 private:
  bool known_ = false;
  bool is_number_ = false;
  std::string text_;
  std::uint64_t number_ = 0;  // the value's Key
  std::string bytes_;
  std::string scratch_;
};

}  // namespace sluice::api::resident
