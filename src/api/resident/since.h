#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "api/resident/value.h"
#include "sql/database.h"
#include "sql/rows.h"

namespace sluice::api::resident {

// The greatest version of the rows that have been read: where the changes after them begin.
class Since {
 public:
  // False: the value is none of the type, which orders(). NULL is no version.
  [[nodiscard]] bool note(const ValueType& type, const sql::Field& field);

  // Whether any row has had a version.
  [[nodiscard]] bool known() const { return known_; }
  // The value as the database has written it; a view. Precondition: known().
  [[nodiscard]] sql::Argument argument() const;

 private:
  bool known_ = false;
  bool is_number_ = false;
  std::string text_;
  std::uint64_t number_ = 0;  // the key, as Key has it
  std::string bytes_;
  std::string scratch_;
};

}  // namespace sluice::api::resident
