// The decoder of WebSocket messages, with and without compression, and the handshake's lists. The results must not
// depend on how the bytes are split. The first byte chooses the test and seeds the pieces' sizes.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fuzzing.h"
#include "http/websocket/handshake.h"
#include "ws/decoder.h"

namespace {

using namespace sluice;
using namespace sluice::http;
using namespace sluice::http::websocket;
using namespace sluice::ws;
using sluice::fuzz::Pieces;
using sluice::fuzz::require;

constexpr std::uint64_t most_message = 10'000;

// All events of the decoder, as text. `pieces` splits the input; null: the decoder gets it whole.
std::string decode(std::string_view bytes, bool masked, bool compressed, Pieces* pieces) {
  Inflater inflater(15);
  Decoder decoder({.max_frame = 8'000,
                   .max_message = most_message,
                   .peer_masks = masked,
                   .inflater = compressed ? &inflater : nullptr,
                   .keep_context = true});
  std::string said;
  std::string waiting;  // given to the decoder, but not consumed yet
  using Kind = Decoder::Event::Kind;
  for (std::size_t shown = 0;;) {
    const std::size_t size = pieces != nullptr ? std::min(pieces->next(), bytes.size() - shown) : bytes.size() - shown;
    waiting += bytes.substr(shown, size);
    shown += size;
    for (;;) {
      // A copy of exactly these bytes, so that the address sanitizer sees a read beyond them.
      auto copy = std::make_unique<char[]>(waiting.size());
      waiting.copy(copy.get(), waiting.size());
      const Decoder::Event event = decoder.next({copy.get(), waiting.size()});
      require(event.consumed <= waiting.size(), "more was consumed than was there");
      require(event.data.size() <= most_message, "a message beyond the limit");
      if (event.kind != Kind::need_more) {
        said += std::to_string(static_cast<int>(event.kind)) + ' ' + std::to_string(static_cast<int>(event.code)) + ' ';
        said.append(event.data).append("\n");
      }
      if (event.kind == Kind::text || (event.kind == Kind::close && !event.data.empty())) {
        Utf8Validator validator;
        bool valid = true;
        for (const char byte : event.data) valid = valid && validator.feed({&byte, 1});
        require(valid && validator.complete(), "text that is not UTF-8");
      }
      if (event.kind == Kind::close || event.kind == Kind::refused) return said;
      require(event.kind == Kind::need_more || event.consumed > 0, "a message out of nothing");
      waiting.erase(0, event.consumed);
      if (event.kind == Kind::need_more) {
        require(waiting.size() < max_header_size + max_control_payload,
                "the decoder waits for more than a control frame");
        break;
      }
    }
    if (shown == bytes.size()) return said;
  }
}

void negotiate(std::string_view bytes, std::uint8_t seed) {
  const auto cut = bytes.find('\n');
  const Field fields[] = {{"Sec-WebSocket-Extensions", bytes.substr(0, cut)},
                          {"Sec-WebSocket-Protocol", cut == std::string_view::npos ? "" : bytes.substr(cut + 1)},
                          {"Sec-WebSocket-Version", "13"},
                          {"Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="},
                          {"Origin", bytes.substr(0, 40)}};
  Request request;
  request.upgrade = "websocket";
  request.authority = bytes.substr(bytes.size() / 2);
  request.fields = {fields, (seed & 1) != 0 ? 5u : 4u};
  const HandshakePolicy policy{
      .origins = {}, .protocols = {"chat"}, .deflate = DeflatePolicy{.context_takeover = (seed & 2) != 0}};
  const auto judged = judge_handshake(request, policy);
  if (!judged || !judged->deflate) return;
  require(judged->deflate->server_window_bits >= 8 && judged->deflate->server_window_bits <= 15, "the server's window");
  require(judged->deflate->client_window_bits >= 8 && judged->deflate->client_window_bits <= 15, "the client's window");
  // As an offer, our answer must agree on the same parameters. Only an offer may leave the client's window open.
  const Field answer{"Sec-WebSocket-Extensions", judged->extensions};
  const Negotiation again = negotiate_deflate({&answer, 1}, {.context_takeover = true});
  require(again.outcome == Negotiation::Outcome::agreed && again.parameters == *judged->deflate, "our own answer");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::uint8_t choice = data[0];
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (choice % 4 == 3) {
    negotiate(bytes, static_cast<std::uint8_t>(choice >> 2));
    return 0;
  }
  // Without masks (a client's view) fuzzing reaches text and compressed data more easily.
  const bool masked = choice % 4 == 0;
  const bool compressed = (choice & 4) != 0;
  Pieces pieces(choice);
  require(decode(bytes, masked, compressed, nullptr) == decode(bytes, masked, compressed, &pieces),
          "the answer depends on how the bytes come");
  return 0;
}
