#include "app/explain/answer.h"

#include <variant>

#include "api/negotiation.h"
#include "app/suite/json.h"
#include "http/exchange.h"

namespace sluice::app {
namespace {

std::string_view bytes_of(const http::Body& body) {
  if (const auto* own = std::get_if<Buffer>(&body)) return own->view();
  if (const auto* shared = std::get_if<http::SharedBytes>(&body)) return shared->bytes;
  return {};
}

}  // namespace

void AnswerExplainer::take(const http::Response& response) {
  Explanation::Answer answer{.status = response.status, .detail = {}, .fields = {}};
  bool is_problem = false;
  for (const auto& [name, value] : response.fields.items()) {
    if (http::same_name(name, "content-type") && value == "application/problem+json") {
      is_problem = true;
      continue;
    }
    std::string text;
    redaction_.append_address(text, value);
    answer.fields.push_back({std::string(name), redaction_.hides(name) ? std::string(Redaction::hidden) : text});
  }
  const std::string_view body = bytes_of(response.body);
  if (!is_problem) {
    answer.body = body;
  } else if (const auto json = suite::parse_json(body)) {
    if (const auto* detail = json->find("detail")) answer.detail = detail->text;
  }
  into_.answer = std::move(answer);
}

bool AnswerExplainer::add_format(const http::Request& request, sql::FormatSet offered, bool has_rows) {
  const auto preference = api::preference_of(request, offered);
  if (!preference) {
    refuse(api::not_acceptable(offered));
    return false;
  }
  if (has_rows) add("format", std::string(sql::media_type(preference->format, preference->header)));
  return true;
}

}  // namespace sluice::app
