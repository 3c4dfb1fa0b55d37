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

// The state of one compressor. It is large, so encoders are reused.
class Encoder {
 public:
  enum class Step : std::uint8_t {
    go_on,   // output what is ready
    flush,   // output everything, so that the client can decode all bytes written so far
    finish,  // output everything and end the stream; begin() must precede the next write()
  };

  explicit Encoder(Coding coding) : coding_(coding) {}
  Encoder(const Encoder&) = delete;
  virtual ~Encoder() = default;

  [[nodiscard]] Coding coding() const { return coding_; }

  // Begins a new body, of this size if it is known, and discards any unfinished one. Returns false if memory runs out.
  [[nodiscard]] virtual bool begin(std::optional<std::uint64_t> size) = 0;
  // Compresses `bytes`, which may be empty, and appends to `out`. Returns false if memory runs out; then only begin()
  // may be called.
  [[nodiscard]] virtual bool write(std::string_view bytes, Step step, Buffer& out) = 0;
  // The most bytes that it has ever allocated.
  [[nodiscard]] virtual std::size_t memory() const = 0;

 private:
  const Coding coding_;
};

// Returns null if memory runs out.
[[nodiscard]] std::unique_ptr<Encoder> make_encoder(Coding coding, const Options& options);

// One core's encoders. All lent and spare encoders together use at most `options.memory`. The pool keeps a few spare
// encoders of each coding.
class EncoderPool {
 public:
  static constexpr std::size_t most_spare = 8;  // spare encoders of each coding

  // Holds an encoder and gives it back when destroyed.
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
  ~EncoderPool();  // precondition: every lease has ended

  // Returns an encoder after begin(). The lease is empty if the memory is used up.
  [[nodiscard]] Lease lend(Coding coding, std::optional<std::uint64_t> size);

  // Compresses a whole body. The memory limit does not apply, because the encoder is used only during the call. Returns
  // false and leaves `out` unchanged if the machine is out of memory.
  [[nodiscard]] bool compress(Coding coding, std::string_view bytes, Buffer& out);

  // Memory of all encoders, lent and spare. Each is counted with the maximum that any encoder of its coding has used so
  // far.
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
  std::array<std::size_t, coding_count> cost_;                 // of one encoder of each coding
  std::array<std::size_t, coding_count> count_{};              // lent and spare
  std::unique_ptr<libdeflate_compressor, Closer> whole_gzip_;  // twice as fast as zlib if the whole body is available
};

}  // namespace sluice::http::compress
