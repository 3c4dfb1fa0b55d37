#include "app/log/access_log.h"

#include <string>

#include <fmt/format.h>

#include "app/log/log_text.h"
#include "gateway/proxy/passed_on.h"
#include "http/identity.h"
#include "http/request_id.h"

namespace sluice::app {
namespace {

// Null if the request was not sent to a server.
const gateway::PassedOn* passed_on_of(const http::Completion& completion) {
  return completion.exchange != nullptr ? completion.exchange->attributes.find<gateway::PassedOn>() : nullptr;
}

}  // namespace

void AccessLog::add(const http::Completion& completion, std::span<const std::string> routes) {
  std::string line = R"({"time":")";
  append_log_time(line, reactor_.wall_clock_ns());
  line += R"(","client":)";
  append_log_string(line, completion.peer);
  if (completion.exchange != nullptr) {
    const http::Request* const request = &completion.exchange->request;
    line += R"(,"method":)";
    append_log_string(line, request->method_text);
    line += R"(,"target":)";
    std::string shown;
    redaction_.append_address(shown, request->target);
    append_log_string(line, shown);
    line += R"(,"host":)";
    append_log_string(line, request->authority);
    if (request->route != 0 && request->route < routes.size()) {
      line += R"(,"route":)";
      append_log_string(line, routes[request->route]);
    }
    if (const auto subject = http::subject_of(*completion.exchange); !subject.empty()) {
      line += R"(,"subject":)";
      append_log_string(line, subject);
    }
    if (const auto id = http::request_id_of(*completion.exchange); !id.empty()) {
      line += R"(,"request_id":)";
      append_log_string(line, id);
    }
    line += R"(,"user_agent":)";
    shown.clear();
    redaction_.append_address(shown, request->field("user-agent"));
    append_log_string(line, shown);
  }
  if (const auto* const passed_on = passed_on_of(completion)) {
    line += R"(,"upstream":)";
    append_log_string(line, passed_on->server().upstream);
    line += R"(,"server":)";
    append_log_string(line, passed_on->server().address);
    line += fmt::format(R"(,"tries":{},"server_us":{})", passed_on->tries,
                        std::chrono::duration_cast<std::chrono::microseconds>(passed_on->to_head).count());
    if (passed_on->failure != gateway::PassedOn::Failure::none) {
      line += R"(,"failure":)";
      append_log_string(line, gateway::PassedOn::name_of(passed_on->failure));
    }
  }
  line += fmt::format(R"(,"status":{},"bytes":{},"duration_us":{})", completion.status, completion.body_bytes,
                      std::chrono::duration_cast<std::chrono::microseconds>(completion.duration).count());
  if (completion.broken) line += R"(,"broken":true)";
  line += "}\n";
  lines_ += line;
  reactor_.at_turn_end(flush_);
}

void AccessLog::flush() {
  output_.write(lines_);
  lines_.clear();
}

}  // namespace sluice::app
