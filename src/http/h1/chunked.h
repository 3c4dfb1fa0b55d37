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

// Takes a chunked body apart (RFC 9112, 7.1), in any split of its bytes. Extensions are checked and dropped, trailer
// fields too unless somebody wants them. Sizes are digits, of at most 2^63 - 1, with white space behind them only where
// an extension follows (7.1.1); every line ends with CRLF.
class ChunkedDecoder {
 public:
  static constexpr std::size_t max_size_digits = 16;
  static constexpr std::size_t max_extension_size = 256;     // bytes, of all chunks together
  static constexpr std::size_t max_trailer_size = 8 * 1024;  // bytes of the trailer section

  struct Step {
    enum class State : std::uint8_t { need_more, data, done, refused };
    State state = State::need_more;
    Reason reason = Reason::none;  // when refused
    std::size_t consumed = 0;      // bytes of `in` that are used up, those of `data` too
    std::string_view data;         // a view into `in`; not empty when state is `data`
  };

  // Goes on to the next piece of data, to the end of the body (what follows belongs to the next request), or to the end
  // of `in`. After `done` or `refused`, reset() comes first. `trailers`: where the lines of the trailer section go, for
  // trailer_fields(); may be null.
  [[nodiscard]] Step decode(std::string_view in, Buffer* trailers = nullptr);
  void reset() { *this = {}; }
  // Of the chunk in hand, the bytes that have not been given yet; 0 while its size is being read.
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

  Phase phase_ = Phase::size;
  std::uint8_t digits_ = 0;
  std::uint16_t extension_size_ = 0;
  std::uint16_t trailer_size_ = 0;
  bool name_empty_ = true;
  std::uint64_t left_ = 0;  // of the chunk in hand
};

// The fields of trailer lines that decode() has taken. Views into `lines`.
[[nodiscard]] std::vector<Field> trailer_fields(std::string_view lines);

// A chunk whose size is filled in when its data are there, so that a body writes straight into the output:
//
//   const std::size_t mark = begin_chunk(out);   source.pull(out);   end_chunk(out, mark);
//
// Nothing may be consumed from `out` in between. Eight digits with leading zeros are what the grammar allows.
inline constexpr std::size_t chunk_prefix_size = 10;
[[nodiscard]] std::size_t begin_chunk(Buffer& out);
// Closes the chunk. Where no data came, it takes the prefix back: a chunk of size zero would end the body.
void end_chunk(Buffer& out, std::size_t mark);
// The end of the body. A trailer field that is not valid is left out.
void append_last_chunk(Buffer& out, std::span<const Field> trailers = {});

}  // namespace sluice::http::h1
