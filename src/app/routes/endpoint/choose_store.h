#pragma once

#include <optional>

#include "api/options.h"
#include "api/source.h"
#include "app/config/complain.h"
#include "app/options.h"

namespace sluice::app::config {

// Sets the stores that an endpoint's files are in and that its uploads go to.
void choose_stores(const Options& options, api::EndpointOptions& endpoint, const Complain& complain);

// Returns the source that `from` names; nothing if there is no `from` or it was invalid, which has been reported.
[[nodiscard]] std::optional<api::SourceName> source_of(const api::ParamOptions& options);

}  // namespace sluice::app::config
