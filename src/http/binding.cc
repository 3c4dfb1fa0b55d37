#include "http/binding.h"

#include <iterator>
#include <optional>

#include "base/contains.h"

namespace sluice::http {
namespace {

Response tell_methods(std::string_view allow) {
  Response response;
  response.status = 204;
  response.fields.add("Allow", allow);
  return response;
}

Binding::Filters joined(Binding::Filters first, Binding::Filters second) {
  first.insert(first.end(), std::make_move_iterator(second.begin()), std::make_move_iterator(second.end()));
  return first;
}

}  // namespace

bool is_preflight(const Request& request) {
  return request.method == Method::options && request.has_field("origin") &&
         request.has_field("access-control-request-method");
}

Binding::Binding(Filters everywhere, Filters own, std::shared_ptr<AnswerFields> answer_fields, bool is_logged)
    : Pinned(std::move(answer_fields), is_logged),
      is_guarded_(!own.empty()),
      filters_(joined(std::move(everywhere), std::move(own))) {
  by_method_.fill(&filters_);
}

Binding::~Binding() {
  while (!kept_.empty()) kept_.pop_back();
}

void Binding::set_filters(Method method, Filters everywhere, Filters own) {
  is_guarded_ |= !own.empty();
  const Filters& filters = of_methods_.emplace_back(joined(std::move(everywhere), std::move(own)));
  by_method_[static_cast<std::size_t>(method)] = &filters;
  if (method == Method::get) by_method_[static_cast<std::size_t>(Method::head)] = &filters;
}

core::Async<Response> Binding::handle(Exchange& exchange) {
  if (is_guarded_ && is_preflight(exchange.request)) {
    exchange.allow = allow(exchange.request);
    const Method wanted = parse_method(exchange.request.field("access-control-request-method"));
    for (const auto& filter : *by_method_[static_cast<std::size_t>(wanted)]) {
      if (auto response = filter->preflight(exchange)) return std::move(*response);
    }
    return tell_methods(exchange.allow);
  }
  const Filters& filters = this->filters(exchange.request);
  if (filters.empty()) return answer(exchange);
  exchange.allow = allow(exchange.request);
  auto asking = exchange.ask(filters);
  if (!asking.ready()) return answer_later(exchange, asking.take_task());
  if (asking.get()) return std::move(*asking.get());
  return answer(exchange);
}

bool Binding::takes_other(std::string_view method) const {
  return other_ != nullptr && (other_methods_.empty() || contains(other_methods_, method));
}

core::Task<Response> Binding::answer_later(Exchange& exchange, core::Task<std::optional<Response>> asking) {
  if (auto response = co_await std::move(asking)) co_return std::move(*response);
  co_return co_await answer(exchange);
}

inline core::Async<Response> Binding::answer(Exchange& exchange) {
  const Request& request = exchange.request;
  // Checked after the filters, so that a client that they refuse cannot detect which paths exist.
  if (request.has_empty_segment && !takes_empty_segments_ && !allow_.empty()) [[unlikely]]
    return problem(404, "The path has an empty segment (//), and no resource has such a path.");

  const Method method = request.method == Method::head ? Method::get : request.method;
  const bool needs_http1 = upgrades_ && request.version == Version::http2 && method == Method::get;
  const auto index = static_cast<std::size_t>(method);
  if (index < handlers_.size() && handlers_[index] != nullptr && !needs_http1) [[likely]]
    return handlers_[index]->handle(exchange);
  // TRACE is a known method, but no resource supports it (RFC 9110, 9.1).
  if (method == Method::other) {
    if (takes_other(request.method_text)) return other_->handle(exchange);
    return problem(501, "The server does not know this method.");
  }
  if (allow_.empty()) return problem(404, "No resource has this path.");
  if (method == Method::options) return tell_methods(allow(request));
  Response response = problem(405, "The resource does not take this method.");
  response.fields.add("Allow", allow(request));
  return response;
}

}  // namespace sluice::http
