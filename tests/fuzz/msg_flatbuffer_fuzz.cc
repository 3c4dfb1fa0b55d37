// FlatBuffers from a peer: all of a message that is verified can be read, within the limits.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>

#include "fuzzing.h"
#include "msg/flatbuffer.h"
#include "msg/test_messages.fbs.h"

namespace {

using namespace sluice::msg;
using sluice::fuzz::require;

constexpr std::uint32_t most_tables = 100;

unsigned sum = 0;  // uses each byte that is read

void read(const flatbuffers::String* text) {
  if (text == nullptr) return;
  for (const char byte : text->string_view()) sum += static_cast<unsigned char>(byte);
  require(text->c_str()[text->size()] == '\0', "a string without its end");
}

void read(const test::Group& group, unsigned depth, unsigned& tables) {
  require(depth <= deepest_table && ++tables <= most_tables, "tables beyond the limits");
  read(group.name());
  sum += static_cast<unsigned>(group.number());
  if (group.groups() == nullptr) return;
  for (const auto* inner : *group.groups()) read(*inner, depth + 1, tables);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // Exactly these bytes, aligned.
  const auto copy = std::make_unique<std::byte[]>(size);
  std::copy_n(reinterpret_cast<const std::byte*>(data), size, copy.get());
  const std::span<const std::byte> body(copy.get(), size);
  if (const auto* const request = verified<test::LoginRequest>(body, most_tables)) {
    require(request->user() != nullptr && request->token() != nullptr, "a required field is missing");
    read(request->user());
    read(request->token());
    if (request->roles() != nullptr)
      for (const auto* role : *request->roles()) read(role);
  }
  if (const auto* const group = verified<test::Group>(body, most_tables)) {
    unsigned tables = 0;
    read(*group, 1, tables);
  }
  return 0;
}
