#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/buffer.h"
#include "http/fields.h"
#include "http/h1/parser.h"

namespace sluice::http::h1 {

// Decodes a chunked body (RFC 9112, 7.1), however its bytes are split. Chunk extensions are validated and dropped, and
// so are trailer fields unless the caller wants them. Chunk sizes are hexadecimal digits, at most 2^63 - 1.
//
// strict, for requests: white space may follow a size only before an extension (7.1.1), and every line must end with
// CRLF. tolerant, for the responses of servers: white space may follow every size, LF alone ends a line (2.2), and
// extensions may be longer. Both read the bytes that `strict` accepts alike.
class ChunkedDecoder {
 public:
  enum class Reading : std::uint8_t { strict, tolerant };
  static constexpr std::size_t max_size_digits = 16;
  static constexpr std::size_t max_extension_size = 256;            // bytes, of one chunk
  static constexpr std::size_t max_tolerated_extension = 8 * 1024;  // the same if tolerant
  static constexpr std::size_t max_trailer_size = 8 * 1024;         // bytes of the trailer section

  explicit ChunkedDecoder(Reading reading = Reading::strict) : reading_(reading) {}

  struct Step {
    enum class State : std::uint8_t { need_more, data, done, refused };
    State state = State::need_more;
    Reason reason = Reason::none;  // when refused
    std::size_t consumed = 0;      // bytes of `in` that were consumed, including `data`
    std::string_view data;         // a view into `in`; not empty if state is `data`
  };

  // Decodes up to the next piece of data, the end of the body (the bytes after it belong to the next request), or the
  // end of `in`. After `done` or `refused`, the caller must call reset() first. If `trailers` is not null, the lines of
  // the trailer section are appended to it, for trailer_fields().
  [[nodiscard]] Step decode(std::string_view in, Buffer* trailers = nullptr);
  void reset() { *this = ChunkedDecoder(reading_); }
  // The bytes of the current chunk that have not been returned yet; 0 while its size is being read.
  [[nodiscard]] std::uint64_t announced() const { return phase_ == Phase::data ? left_ : 0; }

 private:
  enum class Phase : std::uint8_t {
    size,
    space,
    extension,
    size_lf,
    data,
    data_cr,
    data_lf,
    line,
    name,
    value,
    line_lf,
    last_lf,
    complete
  };

  Reading reading_;
  Phase phase_ = Phase::size;
  std::uint8_t digits_ = 0;
  std::uint16_t extension_size_ = 0;
  std::uint16_t trailer_size_ = 0;
  bool name_empty_ = true;
  std::uint64_t left_ = 0;  // of the current chunk
};

// The fields in trailer lines collected by decode(). The result has views into `lines`.
[[nodiscard]] std::vector<Field> trailer_fields(std::string_view lines);

// Writes a chunk whose size is filled in after its data, so that a body can write directly into the output:
//
//   const std::size_t mark = begin_chunk(out);   source.pull(out);   end_chunk(out, mark);
//
// Nothing may be consumed from `out` in between. The size has eight digits; the grammar allows leading zeros.
inline constexpr std::size_t chunk_prefix_size = 10;
[[nodiscard]] std::size_t begin_chunk(Buffer& out);
// Ends the chunk. If it has no data, removes the prefix again, because a chunk of size zero would end the body.
void end_chunk(Buffer& out, std::size_t mark);
// Ends the body. Invalid trailer fields are left out.
void append_last_chunk(Buffer& out, std::span<const Field> trailers = {});

}  // namespace sluice::http::h1
