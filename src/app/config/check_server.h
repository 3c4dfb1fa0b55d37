#pragma once

#include <string>

#include "app/config/complain.h"
#include "app/config/source.h"
#include "app/options.h"

namespace sluice::app::config {

// Checks [server], except for its addresses.
void check_server(const ServerOptions& server, bool has_secure_frames, const Source& source, const Complain& complain);

// Checks the value of a header field.
void check_field_value(const Located<std::string>& field, const Source& source, const Complain& complain);

}  // namespace sluice::app::config
