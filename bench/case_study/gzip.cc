// Stage 9: clients that accept gzip get it. The cache stands in front, so each cached answer is compressed only once.
#include <stdexcept>
#include <utility>

#include <zlib.h>

#include "service.h"

namespace case_study {
namespace {

std::string compressed(const std::string& text) {
  constexpr int gzip_window = 15 + 16;  // zlib.h: 16 more asks for gzip's header and trailer
  z_stream stream{};
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, gzip_window, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    throw std::runtime_error("deflateInit2");
  std::string out(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int result = deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  if (result != Z_STREAM_END) throw std::runtime_error("deflate");
  return out;
}

class Gzip final : public Service {
 public:
  explicit Gzip(std::unique_ptr<Service> inner) : inner_(std::move(inner)) {}

  Answer users_with(const Query& query) override {
    Answer answer = inner_->users_with(query);
    if (!query.accepts_gzip) return answer;
    return {.body = std::make_shared<std::string>(compressed(*answer.body)), .gzip = true};
  }

 private:
  std::unique_ptr<Service> inner_;
};

}  // namespace

std::unique_ptr<Service> gzip(std::unique_ptr<Service> inner) { return std::make_unique<Gzip>(std::move(inner)); }

}  // namespace case_study
