#pragma once

#include <optional>

#include "api/options.h"
#include "api/source.h"
#include "app/config/complain.h"
#include "app/options.h"

namespace sluice::app::config {

// Sets the stores that an endpoint's files are in and that its uploads go to.
void choose_stores(const Options& options, api::EndpointOptions& endpoint, const Complain& complain);

// Returns nothing if absent, or if it was reported when it was read.
[[nodiscard]] std::optional<api::SourceName> source_of(const api::ParamOptions& options);

}  // namespace sluice::app::config
