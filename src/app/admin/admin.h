#pragma once

#include <span>

#include "app/components/feed/changes.h"
#include "app/components/resident/residents.h"
#include "app/prepare/io.h"
#include "app/reloader.h"
#include "app/worker.h"
#include "base/log_tail.h"
#include "core/core.h"
#include "runtime/admin.h"

namespace sluice::app {

// Adds the pages of `sluice serve` to the admin listener: the operator's page with its /live and /configuration,
// /upstreams, /jwt/revoke, /explain, /reload, and its readings. All arguments outlive it.
void add_pages(runtime::Admin& admin, core::Core& core, const Io& io, std::span<Worker* const> workers,
               Reloader& reloader, const Changes& changes, const Residents& residents, const LogTail& log);

}  // namespace sluice::app
