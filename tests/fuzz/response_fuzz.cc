// The parser of responses. Its result must not depend on how the bytes are split. The first byte of the input seeds the
// pieces' sizes, the second one chooses the method of the request.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "fuzzing.h"
#include "http/client/response_parser.h"
#include "http/h1/scan.h"
#include "http/response.h"

namespace {

using namespace sluice::http;
using client::ResponseHead;
using client::ResponseParser;
using h1::BodyFraming;
using h1::Parsed;
using sluice::fuzz::Pieces;
using sluice::fuzz::require;

// A copy of exactly these bytes, so that the address sanitizer sees a read beyond them.
std::unique_ptr<char[]> copy_of(std::string_view bytes) {
  auto copy = std::make_unique<char[]>(bytes.size());
  bytes.copy(copy.get(), bytes.size());
  return copy;
}

std::string text_of(const Parsed& parsed, const ResponseParser& parser) {
  std::string text = std::to_string(static_cast<int>(parsed.state)) + ' ' +
                     std::to_string(static_cast<int>(parsed.reason)) + ' ' + std::to_string(parsed.head_size);
  if (parsed.state != Parsed::State::done) return text;
  const ResponseHead& head = parser.head();
  for (const long value : {long{head.status}, static_cast<long>(head.version), static_cast<long>(head.body.kind),
                           static_cast<long>(head.body.length), long{head.keep_alive}}) {
    text += '\n' + std::to_string(value);
  }
  for (const Field& field : head.fields) text.append("\n").append(field.name).append(": ").append(field.value);
  return text.append("\n").append(head.upgrade);
}

void check(const Parsed& parsed, const ResponseParser& parser, std::string_view bytes, Method method) {
  if (parsed.state != Parsed::State::done) return;
  require(bytes.substr(0, parsed.head_size).ends_with("\r\n\r\n"), "a head's end");
  const ResponseHead& head = parser.head();
  require(head.status >= 100 && head.status <= 999, "a status");
  require(head.body.kind == BodyFraming::Kind::none || (method != Method::head && !has_no_body(head.status)), "a body");
  require(!head.keep_alive || head.body.kind != BodyFraming::Kind::until_close, "a body without an end");
  bool has_length = false;
  bool has_encoding = false;
  for (const Field& field : head.fields) {
    require(is_token(field.name), "a name");
    require(field.value.find_first_of(std::string_view("\r\n\0", 3)) == std::string_view::npos, "a value");
    if (same_name(field.name, "content-length")) {
      has_length = true;
      // Everyone who reads one of several lengths reads the same one.
      h1::for_each_element(field.value, [&](std::string_view element) {
        const auto length = h1::parse_content_length(element);
        require(length.has_value(), "a length");
        require(!head.length || head.length == length, "two lengths");
        require(head.body.kind != BodyFraming::Kind::length || head.body.length == length, "another length");
      });
    }
    has_encoding |= same_name(field.name, "transfer-encoding");
  }
  require(head.length.has_value() == (has_length && !has_encoding), "the length");
  require(!has_encoding || head.body.kind == BodyFraming::Kind::none || head.body.kind == BodyFraming::Kind::chunked,
          "a coding that does not override the length");
  require(!has_length || !has_encoding || !head.keep_alive, "two framings on a connection that goes on");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  std::string_view bytes(reinterpret_cast<const char*>(data) + 2, size - 2);
  const Method method = data[1] % 2 == 0 ? Method::get : Method::head;
  ResponseParser whole_parser;
  ResponseParser parser;
  Pieces pieces(data[0]);
  while (!bytes.empty()) {
    const auto whole_copy = copy_of(bytes);
    whole_parser.reset();
    const Parsed whole = whole_parser.parse({whole_copy.get(), bytes.size()}, method);
    check(whole, whole_parser, bytes, method);

    parser.reset();
    Parsed parsed;
    std::unique_ptr<char[]> copy;
    for (std::size_t shown = 0; shown < bytes.size() && parsed.state == Parsed::State::need_more;) {
      shown = std::min(bytes.size(), shown + pieces.next());
      copy = copy_of(bytes.substr(0, shown));
      parsed = parser.parse({copy.get(), shown}, method);
    }
    require(text_of(whole, whole_parser) == text_of(parsed, parser), "a response depends on its pieces");
    if (whole.state != Parsed::State::done) return 0;
    bytes.remove_prefix(whole.head_size);
  }
  return 0;
}
