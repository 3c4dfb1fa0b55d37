#pragma once

#include <expected>
#include <vector>

// A kind of route, as the rest of the program knows it, is a struct that Options (app/options.h) derives from:
//
//   struct PingTables {                               // [[ping]]
//     static constexpr std::string_view name = "[[ping]]";
//     std::vector<PingOptions> pings;                  // what the file says
//
//     template <class Visitor>
//     static void declare(Visitor& v) {
//       v.field("ping", &PingTables::pings, "A path that answers ...");
//     }
//     // Reports wrong combinations of keys. May set defaults that depend on other tables.
//     static void check(config::Checks& checks);
//     // Adds the paths that its routes serve. It is called after all checks.
//     static void claim(const Options& options, std::vector<Claim>& claims);
//     // Makes its routes and adds them to plan.routes. Reports errors that only a database or a file can reveal.
//     static std::expected<void, Away> prepare(Preparation& preparation);
//   };
//
// RouteKinds (routes/kinds.h) lists all kinds. To add one, add its struct.
namespace sluice::app {

struct Away;
struct Claim;
struct Options;
struct Preparation;

namespace config {
class Checks;
}

}  // namespace sluice::app
