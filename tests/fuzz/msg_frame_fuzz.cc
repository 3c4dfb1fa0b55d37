// The decoder of frames. The frames and the refusal must not depend on how the bytes are split, each frame encodes to
// the bytes that it was decoded from, and the decoder waits for no byte too many. The first byte seeds the pieces'
// sizes.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/utf8.h"
#include "fuzzing.h"
#include "msg/frame.h"

namespace {

using namespace sluice;
using namespace sluice::msg;
using sluice::fuzz::Pieces;
using sluice::fuzz::require;

constexpr std::uint32_t most_body = 300;

// All frames, encoded again, and the refusal. `pieces` splits the input; null: the decoder gets it whole.
std::string decode(std::string_view bytes, Pieces* pieces) {
  Buffer input;
  Buffer again;
  FrameDecoder decoder(most_body);
  for (std::size_t shown = 0; shown < bytes.size();) {
    const std::size_t size = pieces != nullptr ? std::min(pieces->next(), bytes.size() - shown) : bytes.size();
    const bool enough = size >= decoder.needed();
    input.append(bytes.substr(shown, size));
    shown += size;
    for (bool first = true;; first = false) {
      const auto frame = decoder.next(input);
      if (!frame) {
        require(decoder.refusal().offset == again.size(), "the offset of the refused frame");
        require(bytes.starts_with(again.view()), "a frame is not as it came");
        return std::string(again.view()) + decoder.refusal().text();
      }
      if (!*frame) break;
      require(enough || !first, "a frame out of fewer bytes than are needed");
      require((*frame)->body.size() <= most_body, "a body beyond the limit");
      require(reinterpret_cast<std::uintptr_t>((*frame)->body.data()) % 8 == 0, "a body that is not aligned");
      append_frame(again, **frame);
      const auto failure = parse_error((*frame)->body);
      if (!failure) continue;
      require(is_utf8(failure->text), "text that is not UTF-8");
      Buffer copy;
      append_error(copy, 0, std::nullopt, failure->code, failure->text);
      require(copy.view().substr(header_size) ==
                  std::string_view(reinterpret_cast<const char*>((*frame)->body.data()), (*frame)->body.size()),
              "an error is not as it came");
    }
    require(decoder.needed() > 0 && input.size() + decoder.needed() <= longest_header_size + most_body,
            "the decoder waits for too much");
  }
  require(again.size() + input.size() == bytes.size(), "bytes are lost");
  require(bytes.starts_with(again.view()), "a frame is not as it came");
  return std::string(again.view());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  Pieces pieces(data[0]);
  require(decode(bytes, nullptr) == decode(bytes, &pieces), "the answer depends on how the bytes come");
  return 0;
}
