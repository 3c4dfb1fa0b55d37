#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sluice::sql {

// The parameters with which a statement that is read in parallel names its range of the table.
inline constexpr std::string_view range_begin_parameter = "ctid_from";
inline constexpr std::string_view range_end_parameter = "ctid_to";
// The range of the whole table, for running such a statement in an ordinary transaction.
inline constexpr std::string_view first_tid = "(0,0)";
inline constexpr std::string_view last_tid = "(4294967295,65535)";

struct ParallelReading {
  std::uint32_t connections = 1;  // upper bound; only free connections are used
  bool ordered = true;            // rows come in the table's order; false: as they arrive
};

// PostgreSQL: a statement whose answer is read in parts on several connections that see the same snapshot. Each part is
// a range of one table's blocks. Database::prepare_parallel() has verified that the parts together equal the
// statement's answer for the whole table.
struct Parallel {
  ParallelReading reading;
  std::size_t from = 0;  // index in Statement::parameters, like `to`; query() ignores the arguments given for these two
  std::size_t to = 0;
  std::string schema;  // the table's schema, as in the catalog
  std::string table;
};

}  // namespace sluice::sql
