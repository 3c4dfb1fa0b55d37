#pragma once

#include <optional>

#include "api/options.h"
#include "api/source.h"
#include "app/config/complain.h"
#include "app/options.h"

namespace sluice::app::config {

// Fills in where the files of an endpoint are, and where those go that it takes.
void choose_stores(const Options& options, api::EndpointOptions& endpoint, const Complain& complain);

// Nothing: there is none, or it was complained about when it was read.
[[nodiscard]] std::optional<api::SourceName> source_of(const api::ParamOptions& options);

}  // namespace sluice::app::config
