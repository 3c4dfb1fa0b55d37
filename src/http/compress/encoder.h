#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/buffer.h"
#include "http/compress/options.h"

struct libdeflate_compressor;

namespace sluice::http::compress {

// One compressor's state: bytes in, bytes of its coding out. Large, so it is used again and again.
class Encoder {
 public:
  enum class Step : std::uint8_t {
    go_on,   // gives what is ready
    flush,   // gives all, so that the client can decode what has been written so far
    finish,  // gives all, and the end; then begin() comes before the next write()
  };

  explicit Encoder(Coding coding) : coding_(coding) {}
  Encoder(const Encoder&) = delete;
  virtual ~Encoder() = default;

  [[nodiscard]] Coding coding() const { return coding_; }

  // A new body, of this size where it is known; what was left of one before is forgotten. False: out of memory.
  [[nodiscard]] virtual bool begin(std::optional<std::uint64_t> size) = 0;
  // Appends to `out`. `bytes` may be of any size, none too. False: out of memory; only begin() helps.
  [[nodiscard]] virtual bool write(std::string_view bytes, Step step, Buffer& out) = 0;
  // The most that it has allocated, in bytes.
  [[nodiscard]] virtual std::size_t memory() const = 0;

 private:
  const Coding coding_;
};

// Null: out of memory.
[[nodiscard]] std::unique_ptr<Encoder> make_encoder(Coding coding, const Options& options);

// One core's encoders. Those that are lent and those that are spare take no more than `options.memory` together; a few
// of each coding stay spare.
class EncoderPool {
 public:
  static constexpr std::size_t most_spare = 8;  // of each coding

  // An encoder for as long as it is held.
  class Lease {
   public:
    Lease() = default;
    Lease(Lease&& other) noexcept = default;
    Lease& operator=(Lease&& other) noexcept {
      give_back();
      pool_ = other.pool_;
      encoder_ = std::move(other.encoder_);
      return *this;
    }
    ~Lease() { give_back(); }
    explicit operator bool() const { return encoder_ != nullptr; }
    Encoder* operator->() const { return encoder_.get(); }
    void give_back() {
      if (encoder_) pool_->take_back(std::move(encoder_));
    }

   private:
    friend class EncoderPool;
    Lease(EncoderPool& pool, std::unique_ptr<Encoder> encoder) : pool_(&pool), encoder_(std::move(encoder)) {}
    EncoderPool* pool_ = nullptr;
    std::unique_ptr<Encoder> encoder_;
  };

  explicit EncoderPool(const Options& options);
  EncoderPool(const EncoderPool&) = delete;
  ~EncoderPool();  // every lease has ended

  // Begun. Empty: the memory is used up.
  [[nodiscard]] Lease lend(Coding coding, std::optional<std::uint64_t> size);

  // A body at once. It takes an encoder only while it runs, so the limit on memory does not refuse it. False: the
  // machine is out of memory, and `out` is as it was.
  [[nodiscard]] bool compress(Coding coding, std::string_view bytes, Buffer& out);

  // Of all encoders, lent and spare. Each counts with the most that one of its coding has taken so far.
  [[nodiscard]] std::size_t memory() const;

 private:
  struct Closer {
    void operator()(libdeflate_compressor* compressor) const;
  };

  std::unique_ptr<Encoder> take(Coding coding, bool beyond_limit);
  void take_back(std::unique_ptr<Encoder> encoder);
  void drop_spare();

  const Options options_;
  std::array<std::vector<std::unique_ptr<Encoder>>, coding_count> spare_;
  std::array<std::size_t, coding_count> cost_;                 // of one encoder, by coding
  std::array<std::size_t, coding_count> count_{};              // lent and spare
  std::unique_ptr<libdeflate_compressor, Closer> whole_gzip_;  // twice as fast as zlib where all is there at once
};

}  // namespace sluice::http::compress
