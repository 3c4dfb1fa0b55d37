#include "http/error_pages.h"

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

#include "http/accept.h"
#include "http/claims.h"
#include "http/escape.h"
#include "http/exchange.h"
#include "http/request_id.h"

namespace sluice::http {
namespace {

constexpr std::string_view content_type = "content-type";

const std::string& plain_page() {
  static const std::string page =
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{status} {title}</title>\n"
      "<meta name=\"viewport\" content=\"width=device-width\">\n"
      "<style>body{font:16px/1.5 sans-serif;margin:15vh auto;max-width:40em;padding:0 "
      "1em}small{color:#666}</style></head>\n"
      "<body><h1>{status} {title}</h1>\n<p>{detail}</p>\n<p><small>{request_id}</small></p></body></html>\n";
  return page;
}

bool prefers_html(const Request& request) {
  // Most clients send no Accept, or */*.
  if (!std::ranges::any_of(request.fields, [](const Field& field) {
        return same_name(field.name, "accept") && field.value.contains("html");
      })) {
    return false;
  }
  const auto problem = std::max(quality_of(request.fields, "application", "problem+json"),
                                quality_of(request.fields, "application", "json"));
  return quality_of(request.fields, "text", "html") > problem;
}

// Replaces the names in braces. Other braces, as in style sheets, stay.
void fill_in(std::string& out, std::string_view page, const Claims& problem, std::string_view request_id) {
  while (!page.empty()) {
    const std::size_t open = std::min(page.find('{'), page.size());
    out += page.substr(0, open);
    page.remove_prefix(open);
    const std::size_t close = page.find('}');
    if (page.empty() || close == std::string_view::npos) break;
    const std::string_view name = page.substr(1, close - 1);
    if (name == "request_id") {
      append_html(out, request_id);
    } else if (name == "status" || name == "title" || name == "detail") {
      if (const Claim* const member = problem.find(name)) append_html(out, member->text);
    } else {
      out += page.front();
      page.remove_prefix(1);
      continue;
    }
    page.remove_prefix(close + 1);
  }
  out += page;
}

}  // namespace

const std::string& ErrorPages::page_for(int status) const {
  for (const int of : {status, status / 100}) {
    if (const auto found = std::ranges::find(pages_, of, &Page::of); found != pages_.end()) return found->html;
  }
  return plain_page();
}

void ErrorPages::show(const Exchange& exchange, Response& response) const {
  auto* const json = std::get_if<Buffer>(&response.body);
  if (json == nullptr || !prefers_html(exchange.request)) return;
  const auto fields = response.fields.items();
  const auto type = std::ranges::find_if(fields, [](const Field& one) { return same_name(one.name, content_type); });
  if (type == fields.end() || type->value != "application/problem+json") return;
  const std::shared_ptr<const Claims> problem = Claims::parse(json->view());
  if (problem == nullptr) return;
  std::string page;
  fill_in(page, page_for(response.status), *problem, request_id_of(exchange));
  response.fields.set(static_cast<std::size_t>(type - fields.begin()), "text/html; charset=utf-8");
  response.fields.add_trusted("Vary", "Accept");
  Buffer body(page.size());
  body.append(page);
  response.body = std::move(body);
}

}  // namespace sluice::http
