#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "http/shared_spans.h"

namespace sluice::http {

// Splits the bytes into pieces of 1 to `most` bytes, which are not adjacent in memory. The result keeps `owned` alive.
template <class Owned = int>
SharedSpans in_pieces(std::string_view bytes, std::size_t most, std::shared_ptr<Owned> owned = {}) {
  struct Owner {
    std::shared_ptr<Owned> owned;
    std::string bytes;
  };
  const auto size_of_piece = [most](std::size_t index) { return 1 + index * 7919 % most; };
  auto owner = std::make_shared<Owner>(std::move(owned), std::string());
  std::size_t index = 0;
  for (std::string_view rest = bytes; !rest.empty();) {
    const std::string_view piece = rest.substr(0, size_of_piece(index++));
    owner->bytes += piece;
    owner->bytes += '#';
    rest.remove_prefix(piece.size());
  }
  SharedSpans spans(owner);
  index = 0;
  for (std::string_view rest = owner->bytes; !rest.empty();) {
    const std::size_t size = std::min(size_of_piece(index++), rest.size() - 1);
    spans.add(rest.substr(0, size));
    rest.remove_prefix(size + 1);
  }
  return spans;
}

}  // namespace sluice::http
