#pragma once

#include <tuple>
#include <utility>

#include "app/config/tables.h"
#include "app/routes/batch/tables.h"
#include "app/routes/endpoint/tables.h"
#include "app/routes/files/tables.h"
#include "app/routes/frames/tables.h"
#include "app/routes/gateway/tables.h"
#include "app/routes/login/tables.h"
#include "app/routes/openapi/tables.h"
#include "app/routes/resident/tables.h"
#include "app/routes/room/tables.h"
#include "app/routes/websocket/tables.h"

namespace sluice::app {

// All kinds of route, in the order of the reference, in which they are also checked and prepared. [batch] needs the
// routes before it, and [openapi] describes them.
using RouteKinds = std::tuple<EndpointTables, ResidentTables, FilesTables, WebSocketTables, FramesTables, GatewayTables,
                              RoomTables, RealtimeTable, BatchTable, LoginTable, OpenApiTable>;

// Calls `fn.operator()<Kind>()` for each kind.
template <class Fn>
void for_each_route_kind(Fn fn) {
  for_each_kind<RouteKinds>(std::move(fn));
}

using RouteTables = TablesOf<RouteKinds>;

}  // namespace sluice::app
