#include "app/admin/configuration.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "app/log/redaction.h"
#include "runtime/admin.h"

namespace sluice::app {

core::Async<http::Response> AdminConfiguration::handle(http::Exchange&) {
  const Plan& plan = workers_[core_.index()]->plan();
  const Redaction redaction(plan.options.names_of_keys());
  std::string shown;
  // Line by line, because a hidden parameter ends with its line.
  for (std::string_view rest = plan.masked_text; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    redaction.append_address(shown, line);
    shown += '\n';
  }
  http::Response response = runtime::text_response("text/plain; charset=utf-8", shown);
  response.fields.add("X-Content-Type-Options", "nosniff");
  return response;
}

}  // namespace sluice::app
