#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/config/complain.h"
#include "app/config/document.h"
#include "app/config/source.h"
#include "app/options.h"
#include "base/declare.h"
#include "http/router.h"
#include "sql/options.h"

namespace sluice::app::config {

// The checks that several tables of the configuration have in common. They may set defaults in the options.
class Checks {
 public:
  Checks(Options& options, const Source& source, const Environment& environment, std::vector<Diagnostic>& errors)
      : options(options), source(source), environment(environment), complain{errors} {}

  // Whether there are errors. An absent value may then have been refused when it was read.
  [[nodiscard]] bool has_errors() const { return !complain.errors.empty(); }
  // Returns nothing if an error has been reported, or if the path is empty.
  [[nodiscard]] std::optional<http::Pattern> parse_path(const Located<std::string>& path) const;
  // Checks the value of a header field.
  void check_field_value(const Located<std::string>& field) const;
  // Checks the policies of a route. `path`: the route's path, if it may have parameters. `passes_on`: whether the route
  // forwards bodies without buffering them.
  void check_use(const std::vector<Located<std::string>>& use, std::string_view path = {},
                 bool passes_on = false) const;
  // Chooses the only database if none is named. `position` and `whose`: of the table, for errors.
  void choose_database(Located<std::string>& database, Position position, std::string_view whose) const;
  // Null if no database has that name.
  [[nodiscard]] const sql::DatabaseOptions* database_of(std::string_view name) const;
  // Reports a name that is not the name of an [[upstream]].
  void check_upstream(const Located<std::string>& name) const;
  // Reports a name that is not the name of a [[resident]] with a key.
  void check_table(const Located<std::string>& name, std::string_view key) const;

  Options& options;
  const Source& source;
  const Environment& environment;
  const Complain complain;

 private:
  void check_limit(const Located<std::string>& used, const gateway::PolicyOptions& policy, bool has_claims,
                   std::string_view path) const;
  void check_templates(const Located<std::string>& used, const gateway::PolicyOptions& policy, bool has_claims,
                       std::string_view path) const;
  void check_in_path(const Located<std::string>& used, const std::string& need, const std::string& name,
                     std::string_view path) const;
};

}  // namespace sluice::app::config
