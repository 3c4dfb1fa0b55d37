#include "sql/set/fault_text.h"

#include <array>

namespace sluice::sql {
namespace {

struct Known {
  std::string_view sqlstate;  // the full code, or its two-character class
  std::string_view text;
};

// The first match counts.
constexpr std::array known{
    Known{"22P02", "is not of the column's type"},
    Known{"22P03", "is not of the column's type"},
    Known{"22000", "is not of the column's type"},
    Known{"22003", "is out of the range of the column's type"},
    Known{"22001", "is too long"},
    Known{"22007", "is no such date or time"},
    Known{"22008", "is no such date or time"},
    Known{"22", "is not accepted"},
    Known{"23502", "must not be null"},
    Known{"23503", "refers to something that is not there, or is still referred to"},
    Known{"23505", "has the same unique value as another row"},
    Known{"23514", "is outside of what is allowed"},
    Known{"44000", "is outside of what is allowed"},
    Known{"23P01", "collides with another row"},
    Known{"23", "breaks a rule of the data"},
    Known{"54000", "is too long"},
    Known{"54001", "is nested too deeply"},
    Known{"P0001", "is refused by the database"},
};

}  // namespace

std::string refusal_text(std::string_view sqlstate, std::string_view constraint) {
  std::string text = "is not accepted";
  for (const Known& one : known) {
    if (!sqlstate.starts_with(one.sqlstate)) continue;
    text = one.text;
    break;
  }
  if (!constraint.empty()) text.append(" (").append(constraint).append(")");
  return text;
}

bool is_of_a_row(std::string_view sqlstate) {
  return sqlstate.starts_with("22") || sqlstate.starts_with("23") || sqlstate == "44000" || sqlstate == "54000" ||
         sqlstate == "54001" || sqlstate == "P0001";
}

}  // namespace sluice::sql
