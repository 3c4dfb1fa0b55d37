#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "base/reading.h"
#include "core/blocking_pool.h"
#include "core/mailbox.h"
#include "http/compress/cache.h"
#include "http/compress/encoder.h"
#include "http/compress/turnstile.h"
#include "http/request.h"
#include "http/response.h"

namespace sluice::http::compress {

struct Counters {
  std::uint64_t answers = 0;    // compressed, from the cache too
  std::uint64_t cached = 0;     // from the cache
  std::uint64_t no_memory = 0;  // that went out uncompressed
  std::uint64_t bytes_in = 0;   // given to compressors
  std::uint64_t bytes_out = 0;  // taken from them

  [[nodiscard]] Readings readings() const;
};

// What the compressed bodies of a core share; it outlives them.
struct Surroundings {
  Turnstile& turnstile;
  Cache& cache;
  Counters& counters;
  core::Mailbox& mailbox;
  core::BlockingPool& threads;  // reads what is not in the page cache
};

// A body that compresses another one as it is pulled. What one pull takes in is bounded by the turnstile's turn. What
// the encoder holds goes out before the inner body is waited for, so that rows arrive when they are there; while there
// is no waiting, the encoder decides, for it compresses long pieces better. The inner body's next piece is under way
// then, so it is one piece ahead of the client.
class CompressedBody final : public BodySource {
 public:
  // `source`: what it is to be cached as, with a tag that lives as long as `inner`.
  CompressedBody(Body inner, EncoderPool::Lease encoder, const Surroundings& surroundings,
                 const std::optional<Cache::Source>& source);
  ~CompressedBody() override;

  [[nodiscard]] core::Async<Result<Progress>> pull(Buffer& out) override;
  [[nodiscard]] std::span<const Field> trailers() const override;
  [[nodiscard]] const void* owner() const override { return owner_of(inner_); }

 private:
  // What gives the next piece of the inner body, and has begun. Whoever awaits it may go; it goes on until the body is
  // destroyed.
  class Pending;
  enum class Input : std::uint8_t { some, end, wait };
  static constexpr std::size_t file_piece = 64 * 1024;
  static constexpr std::size_t copied_spans = 16 * 1024;  // an encoder takes one long piece better than many short ones

  core::Task<Result<Progress>> wait(Buffer& out);
  // Nothing: there is nothing to send before the inner body has been waited for, or before the next turn.
  std::optional<Result<Progress>> run(Buffer& out);
  Result<Input> fetch();
  core::Async<Result<Progress>> fetch_piece();
  Result<Progress> copy_spans();
  core::Async<Result<Progress>> read(FileRange& file);
  core::Task<Result<Progress>> read_slowly(FileRange& file);
  Result<Progress> write(Encoder::Step step, std::string_view bytes, Buffer& out);
  void collect(std::string_view bytes);
  void stop_collecting();

  Body inner_;
  EncoderPool::Lease encoder_;
  const Surroundings around_;
  const Coding coding_;
  std::optional<Cache::Source> source_;  // while it is collected for the cache
  Buffer collected_;
  Buffer input_;           // of a file, a stream or spans
  SpanReader spans_;       // of inner_
  std::string_view rest_;  // of bytes in memory
  bool inner_done_ = false;
  bool unflushed_ = false;            // the encoder may hold something
  std::unique_ptr<Pending> pending_;  // refers to input_ and inner_
};

// What stands for the body in the answer to HEAD: it is never pulled, and keeps alive what the fields refer to.
class UnsentBody final : public BodySource {
 public:
  explicit UnsentBody(Body inner) : inner_(std::move(inner)) {}
  [[nodiscard]] core::Async<Result<Progress>> pull(Buffer&) override { return Result<Progress>(Progress::done); }
  [[nodiscard]] const void* owner() const override { return owner_of(inner_); }

 private:
  Body inner_;
};

}  // namespace sluice::http::compress
