#pragma once

#include <expected>
#include <string_view>
#include <vector>

// A kind of route, as the rest of the program knows it, is a struct that Options (app/options.h) derives from:
//
//   struct PingTables {                               // [[ping]]
//     static constexpr std::string_view name = "[[ping]]";
//     static constexpr Nouns nouns = {"ping", "pings"};  // for the line that the server writes when it starts
//     std::vector<PingOptions> pings;                  // what the file says
//
//     template <class Visitor>
//     static void declare(Visitor& v) {
//       v.field("ping", &PingTables::pings, "A path that answers ...");
//     }
//     // Only if the file names paths: makes them absolute, and reports what is wrong about them.
//     static void resolve(Options& options, const config::Paths& paths);
//     // Only if another table gets values of this one: sets them, before all checks.
//     static void complete(Options& options);
//     // Reports wrong combinations of keys. May set defaults that depend on other tables.
//     static void check(config::Checks& checks);
//     // The paths that one of its routes serves, and for which requests. Called after all checks.
//     static std::vector<Shape> shapes(const PingOptions& options);
//     // Makes its routes and adds them to plan.routes. Reports errors that only a database or a file can reveal.
//     static std::expected<void, Away> prepare(Preparation& preparation);
//   };
//
// RouteKinds (routes/kinds.h) lists all kinds. To add one, add its struct.
namespace sluice::app {

struct Away;
struct Options;
struct Preparation;
struct Shape;

struct Nouns {
  std::string_view one;
  std::string_view many;
};

namespace config {
class Checks;
struct Paths;
}  // namespace config

}  // namespace sluice::app
