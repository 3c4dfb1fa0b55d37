#include "api/answer_head.h"

#include <algorithm>

namespace sluice::api {

void AnswerHead::fill(http::Response& response) const {
  response.fields.add_trusted("Content-Type", sql::media_type(preference.format, preference.header));
  fill_common(response);
}

http::Response AnswerHead::not_modified(const Conditions& conditions, std::string_view tag) const {
  http::Response response;
  response.status = 304;
  if (!tag.empty()) {
    // The tag that the client sent, which may be the tag of a compressed representation.
    const std::string_view known = conditions.known_tag(tag);
    response.fields.add_owned("ETag", std::string(known.empty() ? tag : known));
    response.tag_takes_suffix = true;
  }
  fill_common(response);
  return response;
}

void AnswerHead::fill_common(http::Response& response) const {
  if (preference.negotiated) response.fields.add_trusted("Vary", "Accept");
  if (!cache_control.empty()) response.fields.add_trusted("Cache-Control", cache_control);
  if (age) [[unlikely]] {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(std::max(*age, Duration{}));
    response.fields.add_owned("Age", std::to_string(seconds.count()));
  }
}

}  // namespace sluice::api
