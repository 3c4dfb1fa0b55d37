#include "http/compress/encoder.h"

#include <algorithm>
#include <bit>
#include <cstdlib>

#include <brotli/encode.h>
#include <libdeflate.h>
#include <zlib.h>
#include <zstd.h>

namespace sluice::http::compress {
namespace {

constexpr std::size_t output_bytes = 16 * 1024;  // output room that an encoder gets at a time
constexpr std::size_t most_at_once = 1 << 30;    // zlib counts in 32 bits

int window_bits(const Options& options) { return std::bit_width(options.window.bytes) - 1; }

class GzipEncoder final : public Encoder {
 public:
  explicit GzipEncoder(int level) : Encoder(Coding::gzip) {
    ready_ = ::deflateInit2(&stream_, level, Z_DEFLATED, gzip_window_bits, memory_level, Z_DEFAULT_STRATEGY) == Z_OK;
  }
  ~GzipEncoder() override {
    if (ready_) ::deflateEnd(&stream_);
  }
  [[nodiscard]] bool ready() const { return ready_; }

  bool begin(std::optional<std::uint64_t>) override { return ::deflateReset(&stream_) == Z_OK; }
  bool write(std::string_view bytes, Step step, Buffer& out) override {
    do {
      const std::string_view piece = bytes.substr(0, most_at_once);
      bytes.remove_prefix(piece.size());
      const Step then = bytes.empty() ? step : Step::go_on;
      const int flush = then == Step::finish ? Z_FINISH : then == Step::flush ? Z_SYNC_FLUSH : Z_NO_FLUSH;
      stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(piece.data()));
      stream_.avail_in = static_cast<uInt>(piece.size());
      int result = Z_OK;
      do {
        stream_.next_out = reinterpret_cast<Bytef*>(out.reserve(output_bytes));
        stream_.avail_out = static_cast<uInt>(std::min(out.writable(), most_at_once));
        const uInt room = stream_.avail_out;
        result = ::deflate(&stream_, flush);
        out.commit(room - stream_.avail_out);
        // Z_BUF_ERROR is not a failure: there was nothing left to do.
        if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) return false;
      } while (stream_.avail_out == 0);
    } while (!bytes.empty());
    return true;
  }
  std::size_t memory() const override { return memory_bytes; }

  static constexpr int memory_level = 8;
  // The formula in zconf.h.
  static constexpr std::size_t memory_bytes = (1u << (15 + 2)) + (1u << (memory_level + 9)) + 8192;

 private:
  static constexpr int gzip_window_bits = 15 + 16;  // 32 KiB, in gzip format

  z_stream stream_{};
  bool ready_ = false;
};

// brotli has no reset, so its state is created for each body. The allocator reuses the memory, so caching it here is
// not worthwhile.
class BrotliEncoder final : public Encoder {
 public:
  BrotliEncoder(std::uint32_t quality, int window) : Encoder(Coding::brotli), quality_(quality), window_(window) {}
  ~BrotliEncoder() override { end(); }

  bool begin(std::optional<std::uint64_t> size) override {
    end();
    state_ = ::BrotliEncoderCreateInstance(&allocate, &deallocate, this);
    if (state_ == nullptr) return false;
    ::BrotliEncoderSetParameter(state_, BROTLI_PARAM_QUALITY, quality_);
    int bits = window_;
    if (size) {
      while (bits > BROTLI_MIN_WINDOW_BITS && (std::uint64_t{1} << (bits - 1)) - 16 >= *size) --bits;
      ::BrotliEncoderSetParameter(state_, BROTLI_PARAM_SIZE_HINT,
                                  static_cast<std::uint32_t>(std::min<std::uint64_t>(*size, 1u << 30)));
    }
    ::BrotliEncoderSetParameter(state_, BROTLI_PARAM_LGWIN, static_cast<std::uint32_t>(bits));
    return true;
  }
  bool write(std::string_view bytes, Step step, Buffer& out) override {
    const BrotliEncoderOperation operation = step == Step::finish  ? BROTLI_OPERATION_FINISH
                                             : step == Step::flush ? BROTLI_OPERATION_FLUSH
                                                                   : BROTLI_OPERATION_PROCESS;
    auto* in = reinterpret_cast<const std::uint8_t*>(bytes.data());
    std::size_t left = bytes.size();
    do {
      auto* to = reinterpret_cast<std::uint8_t*>(out.reserve(output_bytes));
      const std::size_t room = out.writable();
      std::size_t writable = room;
      if (::BrotliEncoderCompressStream(state_, operation, &left, &in, &writable, &to, nullptr) == BROTLI_FALSE) {
        return false;
      }
      out.commit(room - writable);
    } while (left != 0 || ::BrotliEncoderHasMoreOutput(state_) != BROTLI_FALSE);
    if (step == Step::finish) end();
    return true;
  }
  std::size_t memory() const override { return most_allocated_; }

 private:
  static constexpr std::size_t header_bytes = 16;  // before each block, for its size

  void end() {
    if (state_ != nullptr) ::BrotliEncoderDestroyInstance(state_);
    state_ = nullptr;
  }
  static void* allocate(void* opaque, std::size_t size) {
    void* const memory = std::malloc(header_bytes + size);
    if (memory == nullptr) return nullptr;
    *static_cast<std::size_t*>(memory) = size;
    auto& self = *static_cast<BrotliEncoder*>(opaque);
    self.allocated_ += size;
    self.most_allocated_ = std::max(self.most_allocated_, self.allocated_);
    return static_cast<char*>(memory) + header_bytes;
  }
  static void deallocate(void* opaque, void* address) {
    if (address == nullptr) return;
    void* const memory = static_cast<char*>(address) - header_bytes;
    static_cast<BrotliEncoder*>(opaque)->allocated_ -= *static_cast<std::size_t*>(memory);
    std::free(memory);
  }

  const std::uint32_t quality_;
  const int window_;
  BrotliEncoderState* state_ = nullptr;
  std::size_t allocated_ = 0;
  std::size_t most_allocated_ = 0;
};

class ZstdEncoder final : public Encoder {
 public:
  ZstdEncoder(int level, int window) : Encoder(Coding::zstd), context_(::ZSTD_createCCtx()) {
    if (context_ == nullptr) return;
    ::ZSTD_CCtx_setParameter(context_, ZSTD_c_compressionLevel, level);
    ::ZSTD_CCtx_setParameter(context_, ZSTD_c_windowLog, window);
  }
  ~ZstdEncoder() override { ::ZSTD_freeCCtx(context_); }
  [[nodiscard]] bool ready() const { return context_ != nullptr; }

  bool begin(std::optional<std::uint64_t> size) override {
    ::ZSTD_CCtx_reset(context_, ZSTD_reset_session_only);
    ::ZSTD_CCtx_setPledgedSrcSize(context_, size.value_or(ZSTD_CONTENTSIZE_UNKNOWN));
    return true;
  }
  bool write(std::string_view bytes, Step step, Buffer& out) override {
    const ZSTD_EndDirective directive = step == Step::finish  ? ZSTD_e_end
                                        : step == Step::flush ? ZSTD_e_flush
                                                              : ZSTD_e_continue;
    ZSTD_inBuffer in{bytes.data(), bytes.size(), 0};
    for (;;) {
      ZSTD_outBuffer to{out.reserve(output_bytes), 0, 0};
      to.size = out.writable();
      const std::size_t left = ::ZSTD_compressStream2(context_, &to, &in, directive);
      if (::ZSTD_isError(left) != 0) return false;
      out.commit(to.pos);
      if (directive == ZSTD_e_continue ? in.pos == in.size && to.pos < to.size : left == 0) return true;
    }
  }
  std::size_t memory() const override { return ::ZSTD_sizeof_CCtx(context_); }

 private:
  ZSTD_CCtx* const context_;
};

}  // namespace

std::unique_ptr<Encoder> make_encoder(Coding coding, const Options& options) {
  switch (coding) {
    case Coding::gzip: {
      auto encoder = std::make_unique<GzipEncoder>(static_cast<int>(options.gzip_level));
      if (!encoder->ready()) return nullptr;
      return encoder;
    }
    case Coding::brotli:
      return std::make_unique<BrotliEncoder>(options.brotli_quality, window_bits(options));
    case Coding::zstd:
      break;
  }
  auto encoder = std::make_unique<ZstdEncoder>(static_cast<int>(options.zstd_level), window_bits(options));
  if (!encoder->ready()) return nullptr;
  return encoder;
}

void EncoderPool::Closer::operator()(libdeflate_compressor* compressor) const {
  ::libdeflate_free_compressor(compressor);
}

EncoderPool::EncoderPool(const Options& options) : options_(options) {
  // Estimates, until the first encoder reports its memory.
  const std::size_t guess = 20 * options.window.bytes + 256 * 1024;
  cost_ = {GzipEncoder::memory_bytes, guess, guess};
}

EncoderPool::~EncoderPool() = default;

std::size_t EncoderPool::memory() const {
  std::size_t sum = 0;
  for (std::size_t i = 0; i < coding_count; ++i) sum += count_[i] * cost_[i];
  return sum;
}

void EncoderPool::drop_spare() {
  for (std::size_t i = 0; i < coding_count; ++i) {
    count_[i] -= spare_[i].size();
    spare_[i].clear();
  }
}

std::unique_ptr<Encoder> EncoderPool::take(Coding coding, bool beyond_limit) {
  const auto index = static_cast<std::size_t>(coding);
  if (!spare_[index].empty()) {
    auto encoder = std::move(spare_[index].back());
    spare_[index].pop_back();
    return encoder;
  }
  if (memory() + cost_[index] > options_.memory.bytes) {
    drop_spare();
    if (!beyond_limit && memory() + cost_[index] > options_.memory.bytes) return nullptr;
  }
  auto encoder = make_encoder(coding, options_);
  if (encoder) ++count_[index];
  return encoder;
}

void EncoderPool::take_back(std::unique_ptr<Encoder> encoder) {
  const auto index = static_cast<std::size_t>(encoder->coding());
  cost_[index] = std::max(cost_[index], encoder->memory());
  if (spare_[index].size() >= most_spare || memory() > options_.memory.bytes) {
    --count_[index];
    return;
  }
  spare_[index].push_back(std::move(encoder));
}

EncoderPool::Lease EncoderPool::lend(Coding coding, std::optional<std::uint64_t> size) {
  auto encoder = take(coding, false);
  if (!encoder) return {};
  Lease lease(*this, std::move(encoder));
  if (!lease->begin(size)) return {};
  return lease;
}

bool EncoderPool::compress(Coding coding, std::string_view bytes, Buffer& out) {
  if (coding == Coding::gzip) {
    if (!whole_gzip_) whole_gzip_.reset(::libdeflate_alloc_compressor(static_cast<int>(options_.gzip_level)));
    if (!whole_gzip_) return false;
    const std::size_t bound = ::libdeflate_gzip_compress_bound(whole_gzip_.get(), bytes.size());
    const std::size_t size =
        ::libdeflate_gzip_compress(whole_gzip_.get(), bytes.data(), bytes.size(), out.reserve(bound), bound);
    out.commit(size);
    return size != 0;
  }
  auto encoder = take(coding, true);
  if (!encoder) return false;
  Lease lease(*this, std::move(encoder));
  const std::size_t before = out.size();
  if (lease->begin(bytes.size()) && lease->write(bytes, Encoder::Step::finish, out)) return true;
  out.truncate(before);
  return false;
}

}  // namespace sluice::http::compress
