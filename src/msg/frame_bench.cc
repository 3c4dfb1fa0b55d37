#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <benchmark/benchmark.h>

#include "msg/flatbuffer.h"
#include "msg/frame.h"
#include "msg/test_messages.fbs.h"

namespace sluice::msg {
namespace {

constexpr int frames = 16;  // in one buffer

std::string stream_of(std::size_t body_size, std::uint8_t flags) {
  const std::string body(body_size, 'x');
  Buffer out;
  for (int i = 0; i < frames; ++i) append_frame(out, {.id = 7, .flags = flags, .body = std::as_bytes(std::span(body))});
  return std::string(out.view());
}

void count(benchmark::State& state) {
  state.SetItemsProcessed(state.iterations() * frames);
  state.SetBytesProcessed(state.iterations() * frames * state.range(0));
}

// Header and body, into a buffer that has room.
void encode(benchmark::State& state) {
  const std::string body(static_cast<std::size_t>(state.range(0)), 'x');
  const Frame frame{.id = 7, .flags = correlated_flag, .correlation = 1, .body = std::as_bytes(std::span(body))};
  Buffer out;
  for (auto _ : state) {
    for (int i = 0; i < frames; ++i) append_frame(out, frame);
    benchmark::DoNotOptimize(out.data());
    benchmark::ClobberMemory();
    out.clear();
  }
  count(state);
}
BENCHMARK(encode)->Arg(64)->Arg(512)->Arg(4096)->Arg(16384);

// The header alone: the body is shared and written beside it.
void encode_header(benchmark::State& state) {
  const std::string body(64, 'x');
  Frame frame{.id = 7, .flags = correlated_flag, .body = std::as_bytes(std::span(body))};
  for (auto _ : state) {
    ++frame.correlation;
    const EncodedHeader header(frame);
    benchmark::DoNotOptimize(header.view().data());
    benchmark::ClobberMemory();
  }
}
BENCHMARK(encode_header);

// Decodes bytes that are in the buffer already. All bodies are aligned, so the bytes stay as they are.
void decode_aligned(benchmark::State& state) {
  const std::string stream = stream_of(static_cast<std::size_t>(state.range(0)), correlated_flag);
  Buffer input(stream.size());
  std::memcpy(input.reserve(stream.size()), stream.data(), stream.size());
  FrameDecoder decoder(largest_body);
  for (auto _ : state) {
    input.commit(stream.size());
    while (const auto frame = *decoder.next(input)) benchmark::DoNotOptimize(frame->body.data());
  }
  count(state);
}
BENCHMARK(decode_aligned)->Arg(64)->Arg(512)->Arg(4096)->Arg(16384);

// Half of the bodies are moved by 4 bytes. The bytes are copied into the buffer first, as a read does.
void copy_and_decode(benchmark::State& state) {
  const std::string stream = stream_of(static_cast<std::size_t>(state.range(0)), 0);
  Buffer input(stream.size());
  FrameDecoder decoder(largest_body);
  for (auto _ : state) {
    input.append(stream);
    while (const auto frame = *decoder.next(input)) benchmark::DoNotOptimize(frame->body.data());
  }
  count(state);
}
BENCHMARK(copy_and_decode)->Arg(64)->Arg(512)->Arg(4096)->Arg(16384);

void build(flatbuffers::FlatBufferBuilder& builder) {
  builder.Clear();
  const auto user = builder.CreateString("ada.lovelace");
  const auto token = builder.CreateString("0123456789abcdef0123456789abcdef");
  const auto roles = builder.CreateVectorOfStrings({"reader", "writer", "administrator"});
  builder.Finish(test::CreateLoginRequest(builder, user, token, roles));
}

void flatbuffer_build(benchmark::State& state) {
  flatbuffers::FlatBufferBuilder builder;
  for (auto _ : state) {
    build(builder);
    benchmark::DoNotOptimize(builder.GetBufferPointer());
  }
  state.counters["bytes"] = builder.GetSize();
}
BENCHMARK(flatbuffer_build);

void flatbuffer_verify(benchmark::State& state) {
  flatbuffers::FlatBufferBuilder builder;
  build(builder);
  const auto body = std::as_bytes(std::span(builder.GetBufferPointer(), builder.GetSize()));
  for (auto _ : state) benchmark::DoNotOptimize(verified<test::LoginRequest>(body));
}
BENCHMARK(flatbuffer_verify);

// Reads each field of a message that was verified.
void flatbuffer_read(benchmark::State& state) {
  flatbuffers::FlatBufferBuilder builder;
  build(builder);
  const auto body = std::as_bytes(std::span(builder.GetBufferPointer(), builder.GetSize()));
  const auto* request = verified<test::LoginRequest>(body);
  for (auto _ : state) {
    benchmark::DoNotOptimize(request);
    std::size_t bytes = request->user()->size() + request->token()->size();
    for (const auto* role : *request->roles()) bytes += role->size();
    benchmark::DoNotOptimize(bytes);
  }
}
BENCHMARK(flatbuffer_read);

// Messages of a user and a text of `range` bytes: one is built, and the fields of one are found. Compare with
// new_and_copy of base: a struct that is sent as it lies in memory.
std::string text_of(const benchmark::State& state) {
  return std::string(static_cast<std::size_t>(state.range(0)), 'x');
}

void build(flatbuffers::FlatBufferBuilder& builder, std::string_view text) {
  builder.Clear();
  const auto user = builder.CreateString("ada");
  const auto token = builder.CreateString(text);
  builder.Finish(test::CreateLoginRequest(builder, user, token));
}

void flatbuffer_build_of_size(benchmark::State& state) {
  const std::string text = text_of(state);
  flatbuffers::FlatBufferBuilder builder;
  for (auto _ : state) {
    build(builder, text);
    benchmark::DoNotOptimize(builder.GetBufferPointer());
    benchmark::ClobberMemory();
  }
}
BENCHMARK(flatbuffer_build_of_size)->Arg(64)->Arg(512)->Arg(4096);

void flatbuffer_read_of_size(benchmark::State& state) {
  flatbuffers::FlatBufferBuilder builder;
  build(builder, text_of(state));
  const std::uint8_t* body = builder.GetBufferPointer();
  for (auto _ : state) {
    benchmark::DoNotOptimize(body);
    const auto* const request = flatbuffers::GetRoot<test::LoginRequest>(body);
    benchmark::DoNotOptimize(request->user()->size() + request->token()->size());
  }
}
BENCHMARK(flatbuffer_read_of_size)->Arg(64)->Arg(512)->Arg(4096);

// The same data as a plain struct with fixed fields: what a message costs without a format that can change.
struct Login {
  std::array<char, 16> user;
  std::array<char, 40> token;
  std::array<std::array<char, 16>, 3> roles;
};

void set(std::span<char> field, std::string_view text) {
  std::ranges::fill(field, '\0');
  std::ranges::copy(text, field.begin());
}

void struct_build(benchmark::State& state) {
  const std::string_view user = "ada.lovelace", token = "0123456789abcdef0123456789abcdef";
  std::array<char, sizeof(Login)> out{};
  for (auto _ : state) {
    Login login;
    set(login.user, user);
    set(login.token, token);
    set(login.roles[0], "reader");
    set(login.roles[1], "writer");
    set(login.roles[2], "administrator");
    std::memcpy(out.data(), &login, sizeof login);
    benchmark::DoNotOptimize(out.data());
    benchmark::ClobberMemory();
  }
  state.counters["bytes"] = sizeof(Login);
}
BENCHMARK(struct_build);

// Compare with flatbuffer_verify and flatbuffer_read together. A field's text ends at its first zero byte.
void struct_new_copy_read(benchmark::State& state) {
  Login login{};
  set(login.user, "ada.lovelace");
  set(login.token, "0123456789abcdef0123456789abcdef");
  set(login.roles[0], "reader");
  set(login.roles[1], "writer");
  set(login.roles[2], "administrator");
  const std::array<char, sizeof(Login)> body = std::bit_cast<std::array<char, sizeof(Login)>>(login);
  for (auto _ : state) {
    benchmark::ClobberMemory();
    const auto request = std::make_unique_for_overwrite<Login>();
    std::memcpy(request.get(), body.data(), sizeof(Login));
    benchmark::DoNotOptimize(request.get());
    std::size_t bytes = ::strnlen(request->user.data(), request->user.size());
    bytes += ::strnlen(request->token.data(), request->token.size());
    for (const auto& role : request->roles) bytes += ::strnlen(role.data(), role.size());
    benchmark::DoNotOptimize(bytes);
  }
}
BENCHMARK(struct_new_copy_read);

// All of it, in a frame.
void flatbuffer_build_frame_decode_verify_read(benchmark::State& state) {
  flatbuffers::FlatBufferBuilder builder;
  Buffer buffer;
  FrameDecoder decoder(largest_body);
  for (auto _ : state) {
    build(builder);
    append_frame(buffer, {.id = 1,
                          .flags = correlated_flag,
                          .correlation = 1,
                          .body = std::as_bytes(std::span(builder.GetBufferPointer(), builder.GetSize()))});
    while (const auto frame = *decoder.next(buffer)) {
      const auto* const request = verified<test::LoginRequest>(frame->body);
      std::size_t bytes = request->user()->size() + request->token()->size();
      for (const auto* role : *request->roles()) bytes += role->size();
      benchmark::DoNotOptimize(bytes);
    }
  }
}
BENCHMARK(flatbuffer_build_frame_decode_verify_read);

}  // namespace
}  // namespace sluice::msg
