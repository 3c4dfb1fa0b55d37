#pragma once

#include <tuple>

#include "app/components/service/tables.h"
#include "app/components/store/tables.h"
#include "app/components/upstream/tables.h"
#include "app/config/tables.h"

// A kind of component, as the rest of the program knows it, is a struct that Options (app/options.h) derives from:
//
//   struct TickTables {                                // [tick.NAME]
//     std::vector<Named<TickOptions>> ticks;           // what the file says
//
//     template <class Visitor>
//     static void declare(Visitor& v) {
//       v.field("tick", &TickTables::ticks, "Something that ticks.");
//     }
//     // Only if the file names paths: makes them absolute, and reports what is wrong about them.
//     static void resolve(Options& options, const config::Paths& paths);
//     // Reports wrong combinations of keys. May set defaults that depend on other tables.
//     static void check(config::Checks& checks);
//     // Adds its components with plan.add(), after the databases and before the routes. Reports errors that only a
//     // database or a file can reveal.
//     static std::expected<void, Away> prepare(Preparation& preparation);
//   };
//
// To add one, add its struct to the list. Databases, policies, compression and the request log are not in it yet.
namespace sluice::app {

// In the order of the reference, in which they are also checked and prepared.
using ComponentKinds = std::tuple<StoreTables, UpstreamTables, ServiceTables>;

using ComponentTables = TablesOf<ComponentKinds>;

}  // namespace sluice::app
