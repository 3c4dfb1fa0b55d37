#include "rooms/call.h"

#include <algorithm>
#include <array>
#include <variant>

#include "http/fields.h"
#include "http/target.h"

namespace sluice::rooms {
namespace {

// Fields of the handshake and of its connection.
constexpr std::array<std::string_view, 14> not_passed_on{"connection",
                                                         "content-encoding",
                                                         "content-length",
                                                         "content-type",
                                                         "expect",
                                                         "if-match",
                                                         "if-none-match",
                                                         "range",
                                                         "sec-websocket-key",
                                                         "te",
                                                         "sec-websocket-version",
                                                         "sec-websocket-extensions",
                                                         "transfer-encoding",
                                                         "upgrade"};

}  // namespace

Caller::Caller(const http::websocket::Opening& opening) : certificate_(opening.certificate), secure_(opening.secure) {
  std::vector<http::Field> kept;
  std::size_t size = opening.authority.size() + opening.peer.size();
  for (const http::Field& field : opening.fields) {
    if (std::ranges::any_of(not_passed_on, [&](std::string_view one) { return http::same_name(one, field.name); })) {
      continue;
    }
    kept.push_back(field);
    size += field.name.size() + field.value.size();
  }
  bytes_.reserve(size);  // so that the views stay valid
  const auto copy = [&](std::string_view text) {
    const std::size_t at = bytes_.size();
    bytes_.append(text);
    return std::string_view(bytes_).substr(at);
  };
  for (http::Field& field : kept) {
    field.name = copy(field.name);
    field.value = copy(field.value);
  }
  fields_ = std::move(kept);
  authority_ = copy(opening.authority);
  peer_ = copy(opening.peer);
}

class Call::Body final : public http::BodyReader {
 public:
  explicit Body(std::string_view text) : text_(text) {}
  core::Task<Result<std::string_view>> read() override {
    if (text_.size() > limit_) co_return fail(Errc::limit);
    co_return Result<std::string_view>(std::exchange(text_, {}));
  }
  void limit_to(std::uint64_t bytes) override { limit_ = std::min(limit_, bytes); }

 private:
  std::string_view text_;
  std::uint64_t limit_ = UINT64_MAX;
};

Call::Call(const Caller& caller, http::Method method, std::string target, std::string body)
    : target_(std::move(target)), body_(std::move(body)), fields_(caller.fields_) {
  request.method = method;
  request.method_text = http::name_of(method);
  request.version = http::Version::http11;
  request.authority = caller.authority_;
  request.peer = caller.peer_;
  request.secure = caller.secure_;
  request.certificate = caller.certificate_;
  request.target = target_;
  if (!body_.empty()) {
    fields_.push_back({"Content-Type", "application/json"});
    reader_ = std::make_unique<Body>(body_);
    request.body = reader_.get();
  }
  request.fields = fields_;
  const auto mark = request.target.find('?');
  const std::string_view raw = request.target.substr(0, mark);
  if (mark != request.target.npos) request.query = request.target.substr(mark + 1);
  if (!raw.starts_with('/') || !std::ranges::all_of(raw, [](char c) { return c > ' ' && c < 0x7F; })) return;
  segments_.resize(raw.size());
  const auto decoded = http::decode_path(raw, segments_.data());
  if (decoded.fault != http::DecodedPath::Fault::none) return;
  segments_.resize(decoded.size);
  path_ = segments_;
  if (decoded.has_encoded_slash) std::ranges::replace(path_, '\0', '/');
  request.path = path_;
  request.segments = segments_;
  request.has_empty_segment = decoded.has_empty_segment;
  is_valid_ = true;
}

std::string_view text_of(const http::Response& response) {
  if (const auto* buffer = std::get_if<Buffer>(&response.body)) return buffer->view();
  if (const auto* shared = std::get_if<http::SharedBytes>(&response.body)) return shared->bytes;
  return {};
}

}  // namespace sluice::rooms
