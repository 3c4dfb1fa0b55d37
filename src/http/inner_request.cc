#include "http/inner_request.h"

#include <algorithm>
#include <utility>

#include "http/target.h"

namespace sluice::http {

core::Task<Result<std::string_view>> InnerRequest::Body::read() {
  if (text_.size() > limit_) co_return fail(Errc::limit);
  co_return Result<std::string_view>(std::exchange(text_, {}));
}

InnerRequest::InnerRequest(Method method, std::string target, std::string body, BodyReader* outer)
    : target_(std::move(target)), body_(std::move(body)), reader_(body_, outer) {
  request.method = method;
  request.method_text = name_of(method);
  request.version = Version::http11;
  request.target = target_;
  if (!body_.empty()) request.body = &reader_;
  const auto mark = request.target.find('?');
  const std::string_view raw = request.target.substr(0, mark);
  if (mark != request.target.npos) request.query = request.target.substr(mark + 1);
  if (!raw.starts_with('/') || !std::ranges::all_of(raw, [](char c) { return c > ' ' && c < 0x7F; })) return;
  segments_.resize(raw.size());
  const auto decoded = decode_path(raw, segments_.data());
  if (decoded.fault != DecodedPath::Fault::none) return;
  segments_.resize(decoded.size);
  path_ = segments_;
  if (decoded.has_encoded_slash) std::ranges::replace(path_, '\0', '/');
  request.path = path_;
  request.segments = segments_;
  request.has_empty_segment = decoded.has_empty_segment;
  is_valid_ = true;
}

}  // namespace sluice::http
