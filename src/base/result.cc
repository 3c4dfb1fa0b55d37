#include "base/result.h"

#include <system_error>

namespace sluice {

std::string Error::text() const {
  switch (code) {
    case Errc::closed: return "connection closed";
    case Errc::timed_out: return "timed out";
    case Errc::limit: return "limit reached";
    case Errc::malformed: return "malformed data";
    case Errc::system: return std::generic_category().message(detail);
  }
  return "unknown error";
}

}  // namespace sluice
