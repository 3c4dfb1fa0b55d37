#include "app/admin/explain.h"

#include <exception>
#include <expected>
#include <string>
#include <string_view>
#include <utility>

#include "api/refusals.h"
#include "app/suite/json.h"
#include "runtime/admin.h"

namespace sluice::app {
namespace {

using suite::Json;

constexpr std::size_t longest_body = 64 * 1024;

// The error is for the client. It shows no value, which may be a credential.
std::expected<ExplainCommand, std::string> parse(std::string_view body) {
  const auto json = suite::parse_json(body);
  if (!json) return std::unexpected("The body is not JSON: " + json.error().text());
  if (json->kind != Json::Kind::object) return std::unexpected("The body must be a JSON object.");
  ExplainCommand command;
  command.json = true;
  for (const auto& [name, value] : json->members) {
    const bool is_string = value.kind == Json::Kind::string;
    std::string wrong;
    if (name == "method" && is_string) {
      wrong = check_method(command.method = value.text);
    } else if (name == "url" && is_string) {
      wrong = check_url(command.url = value.text);
    } else if (name == "client" && is_string) {
      if (!check_client(command.client = value.text).empty()) wrong = "the client must be an IP address";
    } else if (name == "headers" && value.kind == Json::Kind::array) {
      command.headers.clear();
      for (const Json& header : value.items) {
        if (header.kind != Json::Kind::string || !check_header(header.text).empty()) wrong = check_header("");
        command.headers.push_back(header.text);
      }
    } else if (name == "method" || name == "url" || name == "client") {
      wrong = "it must be a string";
    } else if (name == "headers") {
      wrong = "it must be an array of strings";
    } else {
      wrong = "the members are method, url, headers and client";
    }
    if (!wrong.empty()) return std::unexpected("\"" + name + "\" is wrong: " + wrong);
  }
  if (command.method.empty() || command.url.empty()) return std::unexpected("The body needs \"method\" and \"url\".");
  return command;
}

http::Response not_now(std::string_view why) {
  http::Response response = http::problem(503, why);
  response.fields.add("Retry-After", "1");
  return response;
}

}  // namespace

core::Async<http::Response> AdminExplain::handle(http::Exchange& exchange) { return explain(exchange.request); }

core::Task<http::Response> AdminExplain::explain(const http::Request& request) {
  std::string body;
  if (request.body != nullptr) {
    if (auto refused = co_await api::read_whole(request, longest_body, 1, body)) co_return std::move(*refused);
  }
  auto command = parse(body);
  if (!command) co_return http::problem(400, command.error());
  try {
    co_return co_await explain(std::move(*command));
  } catch (const std::exception& error) {  // no memory, no descriptors
    co_return not_now(std::string("The request cannot be explained now: ") + error.what());
  }
}

core::Task<http::Response> AdminExplain::explain(ExplainCommand command) {
  auto turn = reloader_.begin_explanation();
  if (turn == nullptr) co_return not_now("Another request is being explained.");
  auto work = [command = std::move(command), turn = std::move(turn), &reloader = reloader_]() mutable {
    const auto until_done = std::move(turn);  // the job itself outlives the answer
    const auto [plan, keys] = reloader.served_with_keys();
    return print_explanation(command, *plan, keys).text;
  };
  const auto text = co_await reloader_.threads().run(core_.mailbox(), std::move(work));
  if (!text) co_return not_now("Too many ask for this at once, or the server is ending.");
  co_return runtime::text_response("application/json", *text);
}

}  // namespace sluice::app
