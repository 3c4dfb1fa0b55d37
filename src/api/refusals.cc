#include "api/refusals.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>

#include "base/buffer.h"
#include "base/json.h"

namespace sluice::api {
namespace {

http::Response list_faults(int status, std::string_view detail, std::span<const RowFault> faults) {
  return http::problem(status, detail, errors_member(faults));
}

std::optional<std::uint64_t> announced_length(const http::Request& request) {
  const std::string_view text = request.field("content-length");  // already checked by the connection
  std::uint64_t length = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), length);
  return error == std::errc() ? std::optional(length) : std::nullopt;
}

}  // namespace

http::Response refuse_password() {
  http::Response response = http::problem(503, "Too many passwords wait to be hashed.");
  response.fields.add_trusted("Retry-After", "1");
  return response;
}

std::string errors_member(std::span<const RowFault> faults) {
  Buffer errors;
  errors.append(R"("errors":[)");
  for (const RowFault& fault : faults) {
    if (&fault != faults.data()) errors.push_back(',');
    errors.append(R"({"line":)" + std::to_string(fault.line) + R"(,"row":)" + std::to_string(fault.row) +
                  R"(,"pointer":")");
    append_json_escaped(errors, fault.pointer);
    if (!fault.constraint.empty()) {
      errors.append(R"(","constraint":")");
      append_json_escaped(errors, fault.constraint);
    }
    errors.append(R"(","detail":")");
    append_json_escaped(errors, fault.reason);
    errors.append("\"}");
  }
  errors.push_back(']');
  return std::string(errors.view());
}

http::Response refuse_missing(const http::Request& request) {
  constexpr std::size_t longest = 200;
  const std::string_view target = request.target.substr(0, longest);
  return http::problem(
      404, "No row matches " + std::string(target) + (target.size() < request.target.size() ? "..." : "") + ".");
}

core::Task<std::optional<http::Response>> read_whole(const http::Request& request, std::uint64_t limit, unsigned copies,
                                                     std::string& into) {
  http::BodyReader& body = *request.body;
  const std::uint64_t longest = std::min(announced_length(request).value_or(limit), limit);
  std::size_t kept = 0;
  for (;;) {
    const auto piece = co_await body.read();
    if (!piece) co_return refuse_body(piece.error());
    if (piece->empty()) co_return std::nullopt;
    if (piece->size() > limit - into.size()) co_return refuse_length();
    const std::size_t size = into.size() + piece->size();
    if (size > kept) {
      const std::size_t grown = std::max<std::size_t>(size, std::min<std::uint64_t>(kept + kept / 2, longest));
      if (auto kept_more = body.keep((grown - kept) * copies); !kept_more) co_return refuse_body(kept_more.error());
      kept = grown;
      into.reserve(kept);
    }
    into += *piece;
  }
}

core::Task<http::Response> handle_without_body(http::Exchange& exchange, http::Handler& handler) {
  http::Request& request = exchange.request;
  constexpr std::string_view says_nothing = "{}";
  std::string body;
  while (body.size() <= says_nothing.size()) {
    const auto piece = co_await request.body->read();
    if (!piece) co_return refuse_body(piece.error());
    if (piece->empty()) break;
    body += piece->substr(0, says_nothing.size() + 1);
  }
  if (!body.empty() && body != says_nothing) {
    co_return http::problem(400, "The request has a body, and no value is taken from one here: leave it out.");
  }
  request.body = nullptr;
  co_return co_await handler.handle(exchange);
}

namespace {

// Whether a name stands for the whole row, which only json and ndjson provide.
bool takes_whole_row(const Shape& shape) {
  return std::ranges::any_of(shape.names, [](const std::string& name) { return name.empty(); });
}

}  // namespace

bool takes(const Shape& shape, std::optional<BodyFormat> format) {
  return format && *format != BodyFormat::merge_patch &&
         (*format == BodyFormat::json || *format == BodyFormat::ndjson || !takes_whole_row(shape));
}

http::Response refuse_type(http::Method method, const Shape& shape, bool merges) {
  std::string types(takes_whole_row(shape) ? "application/json, application/x-ndjson" : accepted_types());
  if (merges) types += ", application/merge-patch+json";
  http::Response response = http::problem(415, "The body may be " + types + ", in UTF-8 and not compressed.");
  if (method == http::Method::post) response.fields.add_owned("Accept-Post", types);               // W3C LDP, 7.1
  if (method == http::Method::patch) response.fields.add_owned("Accept-Patch", std::move(types));  // RFC 5789, 3.1
  return response;
}

bool announces_more(const http::Request& request, std::uint64_t limit) {
  return announced_length(request).value_or(0) > limit;
}

std::optional<http::Response> refuse_part(const http::Request& request) {
  if (request.method != http::Method::put || !request.has_field("content-range")) return std::nullopt;
  return http::problem(400, "PUT takes the whole, and no part of it: leave Content-Range out.");
}

http::Response refuse_length() { return http::problem(413, "The request's body is longer than the server takes."); }

http::Response refuse_body(const Error& error) {
  switch (error.code) {
    case Errc::limit:
      return refuse_length();
    case Errc::timed_out:
      return http::problem(408);
    case Errc::system: {
      http::Response response = http::problem(503, http::describe_body_refusal(503));
      response.fields.add("Retry-After", "1");
      return response;
    }
    default:
      return http::problem(400, "The request's body could not be read.");
  }
}

http::Response refuse_unreadable(std::span<const RowFault> faults) {
  return list_faults(400, "The body cannot be read as what its Content-Type says.", faults);
}

http::Response refuse_row_count(std::size_t count) {
  return http::problem(400, "The body must have exactly one row here; it has " +
                                (count == 0 ? std::string("none") : std::to_string(count)) + ".");
}

http::Response refuse_rows(std::span<const RowFault> faults) {
  if (std::ranges::any_of(faults, &RowFault::is_syntax)) return refuse_unreadable(faults);
  return list_faults(422, "The body has values that cannot be taken; nothing has been written.", faults);
}

http::Response refuse_outside(std::span<const RowFault> faults) {
  return list_faults(409, "The body has rows that are no part of what it replaces; nothing has been written.", faults);
}

}  // namespace sluice::api
