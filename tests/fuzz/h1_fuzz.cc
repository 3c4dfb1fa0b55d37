// The request parser and the decoder of chunked bodies. Both must give the same result for the whole input and for the
// input in pieces. The first byte of the input seeds the pieces' sizes.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "fuzzing.h"
#include "http/h1/chunked.h"
#include "http/h1/parser.h"

namespace {

using namespace sluice::http;
using namespace sluice::http::h1;
using sluice::fuzz::Pieces;
using sluice::fuzz::require;

// A copy of exactly these bytes, so that the address sanitizer sees a read beyond them.
std::unique_ptr<char[]> copy_of(std::string_view bytes) {
  auto copy = std::make_unique<char[]>(bytes.size());
  bytes.copy(copy.get(), bytes.size());
  return copy;
}

std::string text_of(const Parsed& parsed, RequestParser& parser) {
  std::string text = std::to_string(static_cast<int>(parsed.state)) + ' ' +
                     std::to_string(static_cast<int>(parsed.reason)) + ' ' + std::to_string(parsed.head_size);
  if (parsed.state != Parsed::State::done) return text;
  const Request& request = parser.request();
  const auto add = [&text](std::string_view part) { text.append("\n").append(part); };
  add(std::to_string(static_cast<int>(request.method)) + std::to_string(static_cast<int>(request.version)));
  for (std::string_view part :
       {request.method_text, request.target, request.path, request.segments, request.query, request.authority}) {
    add(part);
  }
  for (const Field& field : request.fields) {
    add(field.name);
    add(field.value);
  }
  add(parser.upgrade());
  add(std::to_string(static_cast<int>(parser.body().kind)) + ' ' + std::to_string(parser.body().length));
  add(std::to_string(parser.keep_alive()) + std::to_string(parser.expects_continue()));
  return text;
}

void check_request(const Parsed& parsed, RequestParser& parser, std::string_view bytes) {
  if (parsed.state == Parsed::State::refused) require(status_of(parsed.reason) >= 400, "a refusal without a status");
  if (parsed.state != Parsed::State::done) return;
  require(parsed.head_size <= bytes.size() && bytes.substr(0, parsed.head_size).ends_with("\r\n\r\n"), "a head's end");
  const Request& request = parser.request();
  require(request.path.starts_with('/') || request.path == "*" || request.method == Method::connect, "a path");
  require(request.path.find('\0') == std::string_view::npos, "NUL in a path");
  std::string path(request.segments);
  require(path.find("//") == std::string::npos, "an empty segment");
  require(("/" + path + "/").find("/../") == std::string::npos, "a path that leads up");
  std::replace(path.begin(), path.end(), '\0', '/');
  require(path == request.path, "segments that are not the path's");
  for (const Field& field : request.fields) {
    require(!field.name.empty(), "an empty name");
    require(field.name.find_first_of(" \t\r\n:") == std::string_view::npos, "a name");
    require(field.value.find_first_of(std::string_view("\r\n\0", 3)) == std::string_view::npos, "a value");
  }
}

void fuzz_requests(std::string_view bytes, std::uint8_t seed) {
  Request whole_request;
  Request request;
  RequestParser whole_parser(whole_request);
  RequestParser parser(request);
  Pieces pieces(seed);
  for (;;) {  // pipelined
    const auto whole_copy = copy_of(bytes);
    whole_parser.reset();
    const Parsed whole = whole_parser.parse({whole_copy.get(), bytes.size()});
    check_request(whole, whole_parser, bytes);

    parser.reset();
    Parsed parsed;
    std::unique_ptr<char[]> copy;
    for (std::size_t size = 0; size < bytes.size() && parsed.state == Parsed::State::need_more;) {
      size = std::min(bytes.size(), size + pieces.next());
      copy = copy_of(bytes.substr(0, size));
      parsed = parser.parse({copy.get(), size});
    }
    require(text_of(whole, whole_parser) == text_of(parsed, parser), "a request depends on its pieces");
    if (whole.state != Parsed::State::done) return;
    bytes.remove_prefix(whole.head_size);
    if (bytes.empty()) return;
  }
}

struct Decoded {
  ChunkedDecoder::Step::State state{};
  Reason reason{};
  std::size_t consumed = 0;
  std::string data;

  friend bool operator==(const Decoded&, const Decoded&) = default;
};

void decode_piece(ChunkedDecoder& decoder, std::string_view piece, Decoded& decoded) {
  using State = ChunkedDecoder::Step::State;
  const auto copy = copy_of(piece);
  std::string_view rest(copy.get(), piece.size());
  while (!rest.empty() && decoded.state != State::done && decoded.state != State::refused) {
    const auto step = decoder.decode(rest);
    require(step.consumed <= rest.size() && step.consumed + (step.state == State::refused ? 1 : 0) > 0, "progress");
    require((step.state == State::data) == !step.data.empty(), "data");
    rest.remove_prefix(step.consumed);
    decoded.consumed += step.consumed;
    decoded.data += step.data;
    decoded.state = step.state;
    decoded.reason = step.reason;
  }
  if (decoded.state == State::data) decoded.state = State::need_more;
}

Decoded fuzz_chunks(std::string_view bytes, Pieces pieces, ChunkedDecoder::Reading reading) {
  using State = ChunkedDecoder::Step::State;
  ChunkedDecoder whole_decoder(reading);
  Decoded whole;
  decode_piece(whole_decoder, bytes, whole);
  ChunkedDecoder decoder(reading);
  Decoded decoded;
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t size = std::min(bytes.size() - at, pieces.next());
    decode_piece(decoder, bytes.substr(at, size), decoded);
    at += size;
    if (decoded.state == State::done || decoded.state == State::refused) break;
  }
  require(whole == decoded, "a chunked body depends on its pieces");
  return whole;
}

void fuzz_chunks(std::string_view bytes, std::uint8_t seed) {
  using State = ChunkedDecoder::Step::State;
  Pieces pieces(seed);
  const Decoded strict = fuzz_chunks(bytes, pieces, ChunkedDecoder::Reading::strict);
  const Decoded tolerant = fuzz_chunks(bytes, pieces, ChunkedDecoder::Reading::tolerant);
  require(strict.state == State::refused || strict == tolerant, "a valid body is read in two ways");

  // The decoder must accept the chunks that we write.
  sluice::Buffer out;
  for (std::string_view rest = bytes; !rest.empty();) {
    const std::size_t size = std::min(rest.size(), pieces.next());
    const std::size_t mark = begin_chunk(out);
    out.append(rest.substr(0, size));
    end_chunk(out, mark);
    rest.remove_prefix(size);
  }
  append_last_chunk(out);
  ChunkedDecoder back_decoder;
  Decoded back;
  decode_piece(back_decoder, out.view(), back);
  require(back.state == State::done && back.consumed == out.size() && back.data == bytes, "a body does not come back");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  fuzz_requests(bytes, data[0]);
  fuzz_chunks(bytes, data[0]);
  return 0;
}
