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
  std::uint64_t answers = 0;    // compressed responses, including those from the cache
  std::uint64_t cached = 0;     // from the cache
  std::uint64_t no_memory = 0;  // responses sent uncompressed because memory ran out
  std::uint64_t bytes_in = 0;   // into compressors
  std::uint64_t bytes_out = 0;  // out of compressors

  [[nodiscard]] Readings readings() const;
};

// Shared by all compressed bodies of a core. Outlives them.
struct Surroundings {
  Turnstile& turnstile;
  Cache& cache;
  Counters& counters;
  core::Mailbox& mailbox;
  core::BlockingPool& threads;  // reads files that are not in the page cache
};

// A body that compresses an inner body as it is pulled. The turnstile limits the input of one pull. Before the body
// waits for the inner body, it flushes the encoder, so that available rows reach the client without delay. Otherwise
// the encoder decides when to output, because it compresses long pieces better. The next piece is requested before the
// flush, so the inner body is one piece ahead of the client.
class CompressedBody final : public BodySource {
 public:
  // `source`: the key under which the cache stores the result, if at all. Its tag lives as long as `inner`.
  CompressedBody(Body inner, EncoderPool::Lease encoder, const Surroundings& surroundings,
                 const std::optional<Cache::Source>& source);
  ~CompressedBody() override;

  [[nodiscard]] core::Async<Result<Progress>> pull(Buffer& out) override;
  [[nodiscard]] std::span<const Field> trailers() const override;
  [[nodiscard]] const void* owner() const override { return owner_of(inner_); }
  [[nodiscard]] std::size_t whole_bytes() const override { return whole_bytes_of(inner_); }

 private:
  // A running request for the next piece of the inner body. The coroutine that awaits it may be destroyed; the request
  // then continues until the body is destroyed.
  class Pending;
  enum class Input : std::uint8_t { some, end, wait };
  static constexpr std::size_t file_piece = 64 * 1024;
  static constexpr std::size_t copied_spans =
      16 * 1024;  // an encoder compresses one long piece better than many short ones

  core::Task<Result<Progress>> wait(Buffer& out);
  // Returns nothing if there is nothing to send until the inner body is ready, or until the next turn.
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
  std::optional<Cache::Source> source_;  // set while the result is collected for the cache
  Buffer collected_;
  Buffer input_;           // the current piece of a file, a stream or spans
  SpanReader spans_;       // reads inner_
  std::string_view rest_;  // the part of bytes in memory that is still to be compressed
  bool inner_done_ = false;
  bool unflushed_ = false;            // the encoder may hold output
  std::unique_ptr<Pending> pending_;  // refers to input_ and inner_
};

// Replaces the body in the response to HEAD. It is never pulled; it keeps alive what the fields refer to.
class UnsentBody final : public BodySource {
 public:
  explicit UnsentBody(Body inner) : inner_(std::move(inner)) {}
  [[nodiscard]] core::Async<Result<Progress>> pull(Buffer&) override { return Result<Progress>(Progress::done); }
  [[nodiscard]] const void* owner() const override { return owner_of(inner_); }

 private:
  Body inner_;
};

}  // namespace sluice::http::compress
