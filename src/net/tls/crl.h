#pragma once

#include <cstdint>

#include "base/declare.h"

namespace sluice::net::tls {

// Which certificates are accepted if the revocation list (CRL) of their authority is missing or has expired. A list
// that has expired still applies. Without any list in the file of authorities, nothing is checked.
enum class Crl : std::uint8_t { soft, hard };

inline NameOf<Crl> names_of(Crl) { return {{"soft", Crl::soft}, {"hard", Crl::hard}}; }

}  // namespace sluice::net::tls
