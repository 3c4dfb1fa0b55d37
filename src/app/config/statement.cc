#include "app/config/statement.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "app/config/text.h"
#include "http/router.h"

namespace sluice::app::config {

Diagnostic statement_refused(const api::EndpointOptions& endpoint, const Located<std::string>& statement,
                             const sql::Error& error, const Source& source) {
  Diagnostic diagnostic;
  diagnostic.position = source.locate(statement.position, error.position);
  diagnostic.message = fmt::format("endpoint {}: {}", endpoint.path.value, error.message);
  if (!error.sqlstate.empty()) diagnostic.hint = fmt::format("SQLSTATE {}", error.sqlstate);
  return diagnostic;
}

void check_parameters(const api::EndpointOptions& endpoint, const std::vector<std::string_view>& used,
                      const Source& source, std::vector<Diagnostic>& errors) {
  const bool several = endpoint.post || endpoint.put || endpoint.patch || endpoint.delete_;
  auto unused = [&](std::string_view name, Position position) {
    if (std::ranges::find(used, name) != used.end()) return;
    errors.push_back({position, fmt::format("endpoint {}: {} not use :{}", endpoint.path.value,
                                  several ? "its statements do" : "the statement does", name),
                      did_you_mean(name, used)});
  };

  auto pattern = http::Pattern::parse(endpoint.path.value);
  std::vector<std::string> in_path = pattern ? pattern->names() : std::vector<std::string>{};
  std::size_t at = 0;  // the parameters stand in the path as they do in `in_path`
  for (const std::string& name : in_path) {
    at = endpoint.path.value.find("/{", at) + 1;
    unused(name, source.locate(endpoint.path.position, count_characters(endpoint.path.value.substr(0, at)) + 1));
  }
  for (const auto& parameter : endpoint.params) {
    if (std::ranges::find(in_path, parameter.name.value) == in_path.end()) {
      unused(parameter.name.value, parameter.name.position);
    }
  }
}

}  // namespace sluice::app::config
