#include "sql/open.h"

namespace sluice::sql {
Result<std::unique_ptr<Database>> open_database(const DatabaseOptions&, core::Reactor&, core::Mailbox&,
                                                core::BlockingPool&) {
  return std::unexpected(Error{Failure::statement, {}, "wip", 0});
}
}
