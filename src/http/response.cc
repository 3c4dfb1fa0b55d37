#include "http/response.h"

#include <charconv>
#include <type_traits>

#include "base/json.h"

namespace sluice::http {

// The IANA registry of HTTP status codes; 306 and 418 are registered as unused and have no phrase.
std::string_view reason_phrase(int status) {
  switch (status) {
    case 100:
      return "Continue";
    case 101:
      return "Switching Protocols";
    case 102:
      return "Processing";
    case 103:
      return "Early Hints";
    case 104:
      return "Upload Resumption Supported";
    case 200:
      return "OK";
    case 201:
      return "Created";
    case 202:
      return "Accepted";
    case 203:
      return "Non-Authoritative Information";
    case 204:
      return "No Content";
    case 205:
      return "Reset Content";
    case 206:
      return "Partial Content";
    case 207:
      return "Multi-Status";
    case 208:
      return "Already Reported";
    case 226:
      return "IM Used";
    case 300:
      return "Multiple Choices";
    case 301:
      return "Moved Permanently";
    case 302:
      return "Found";
    case 303:
      return "See Other";
    case 304:
      return "Not Modified";
    case 305:
      return "Use Proxy";
    case 307:
      return "Temporary Redirect";
    case 308:
      return "Permanent Redirect";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 402:
      return "Payment Required";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 406:
      return "Not Acceptable";
    case 407:
      return "Proxy Authentication Required";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 410:
      return "Gone";
    case 411:
      return "Length Required";
    case 412:
      return "Precondition Failed";
    case 413:
      return "Content Too Large";
    case 414:
      return "URI Too Long";
    case 415:
      return "Unsupported Media Type";
    case 416:
      return "Range Not Satisfiable";
    case 417:
      return "Expectation Failed";
    case 421:
      return "Misdirected Request";
    case 422:
      return "Unprocessable Content";
    case 423:
      return "Locked";
    case 424:
      return "Failed Dependency";
    case 425:
      return "Too Early";
    case 426:
      return "Upgrade Required";
    case 428:
      return "Precondition Required";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 451:
      return "Unavailable For Legal Reasons";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 502:
      return "Bad Gateway";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    case 505:
      return "HTTP Version Not Supported";
    case 506:
      return "Variant Also Negotiates";
    case 507:
      return "Insufficient Storage";
    case 508:
      return "Loop Detected";
    case 510:
      return "Not Extended";
    case 511:
      return "Network Authentication Required";
    default:
      return {};
  }
}

std::optional<std::uint64_t> size_of(const Body& body) {
  return std::visit(
      [](const auto& part) -> std::optional<std::uint64_t> {
        using Part = std::remove_cvref_t<decltype(part)>;
        if constexpr (std::is_same_v<Part, std::monostate>) {
          return 0;
        } else if constexpr (std::is_same_v<Part, Buffer> || std::is_same_v<Part, SharedSpans>) {
          return part.size();
        } else if constexpr (std::is_same_v<Part, SharedBytes>) {
          return part.bytes.size();
        } else if constexpr (std::is_same_v<Part, FileRange>) {
          return part.size;
        } else {
          return part ? part->size() : std::nullopt;
        }
      },
      body);
}

const void* owner_of(const Body& body) {
  if (const auto* spans = std::get_if<SharedSpans>(&body)) return spans->owner();
  if (const auto* source = std::get_if<std::unique_ptr<BodySource>>(&body))
    return *source ? (*source)->owner() : nullptr;
  if (const auto* file = std::get_if<FileRange>(&body)) return file->owner.get();
  const auto* const bytes = std::get_if<SharedBytes>(&body);
  if (bytes == nullptr) return nullptr;
  return bytes->origin != nullptr ? bytes->origin : bytes->owner.get();
}

std::size_t whole_bytes_of(const Body& body) {
  if (const auto* own = std::get_if<Buffer>(&body)) return own->size();
  const auto* const source = std::get_if<std::unique_ptr<BodySource>>(&body);
  return source != nullptr && *source ? (*source)->whole_bytes() : 0;
}

Response problem(int status, std::string_view detail, std::string_view members) {
  Buffer body(128 + detail.size() + members.size());
  body.append(R"({"type":"about:blank","title":")");
  append_json_escaped(body, reason_phrase(status));
  body.append(R"(","status":)");
  char digits[12];
  const auto end = std::to_chars(digits, digits + sizeof digits, status).ptr;
  body.append({digits, static_cast<std::size_t>(end - digits)});
  if (!detail.empty()) {
    body.append(R"(,"detail":")");
    append_json_escaped(body, detail);
    body.push_back('"');
  }
  if (!members.empty()) {
    body.push_back(',');
    body.append(members);
  }
  body.push_back('}');

  Response response;
  response.status = status;
  response.fields.add("Content-Type", "application/problem+json");
  response.body = std::move(body);
  return response;
}

Response answer_without_room(bool changes_nothing) {
  if (!changes_nothing) return problem(500, "The request was dealt with, but there is no room for its answer.");
  Response response = problem(503, "There is no room for the answer: other clients do not take theirs.");
  response.fields.add("Retry-After", "1");
  return response;
}

std::string_view describe_body_refusal(int status) {
  if (status == 503) return "The server holds as many request bodies as it may.";
  if (status != 413) return "The request's body could not be read.";
  return "The request's body is longer than the server takes, or needs more memory than one request may have "
         "(body_memory).";
}

}  // namespace sluice::http
