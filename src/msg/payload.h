#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "base/buffer.h"
#include "msg/frame.h"

namespace sluice::msg {

// One encoded frame for many receivers, on any core: encoded once, immutable, and shared by reference.
using Payload = std::shared_ptr<const Buffer>;

[[nodiscard]] inline Payload make_payload(const Frame& frame) {
  auto encoded = std::make_shared<Buffer>(longest_header_size + frame.body.size());
  append_frame(*encoded, frame);
  return encoded;
}

// The bytes of a text as a frame's body.
[[nodiscard]] inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}
[[nodiscard]] inline std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace sluice::msg
