#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/buffer.h"

namespace sluice::api {

// The boundary that a Content-Type of multipart/form-data names (RFC 7578, 4.1). Nothing: it is another type, or it
// does not parse, or the boundary is none (RFC 2046, 5.1.1).
[[nodiscard]] std::optional<std::string> form_data_boundary(std::string_view content_type);

// type "/" subtype of a Content-Type, in lower case and without its parameters; nothing: it does not parse.
[[nodiscard]] std::optional<std::string> bare_media_type(std::string_view content_type);

// One part's header.
struct FormDataPart {
  std::string name;
  std::optional<std::string>
      file_name;           // without the folders that some clients send; "": a form's empty field for a file
  std::string media_type;  // in lower case, without parameters; text/plain where it is not said
};

struct FormDataLimits {
  std::size_t parts = 100;
  std::size_t header_bytes = 8192;  // of one part
};

// The parts of a multipart/form-data body (RFC 7578), as they come: feed() what has come, next() until it wants more,
// finish() when nothing follows. Memory is what was fed at once and a part's header. Does no I/O. What the parts are
// does not depend on how the body was cut. A line that begins with the boundary and goes on otherwise is broken, and
// not data: others would take it for a boundary (RFC 2046, 5.1.1).
class FormDataReader {
 public:
  enum class Next : std::uint8_t {
    part,  // part(): what follows belongs to it
    data,  // data(): some of it
    need_more,
    end,
    broken,  // fault()
  };

  explicit FormDataReader(std::string_view boundary, const FormDataLimits& limits = {});

  // Copies the bytes. Only at first and after next() has said need_more.
  void feed(std::string_view bytes);
  // Likewise.
  void finish() { finished_ = true; }
  [[nodiscard]] Next next();
  [[nodiscard]] FormDataPart& part() { return part_; }
  // Until the next call of anything else.
  [[nodiscard]] std::string_view data() const { return data_; }
  [[nodiscard]] const std::string& fault() const { return fault_; }

 private:
  enum class State : std::uint8_t { preamble, boundary, header, begin, data, epilogue, broken };

  Next break_off(std::string fault);
  // Nothing: the state has changed.
  std::optional<Next> look_for_boundary();
  std::optional<Next> after_boundary();
  std::optional<Next> read_header();
  std::optional<Next> begin_data();
  [[nodiscard]] std::string parse_header(std::string_view lines);

  const std::string delimiter_;  // with the line's end before it, which belongs to it
  const FormDataLimits limits_;
  State state_ = State::preamble;
  Buffer buffer_;
  std::size_t given_ = 0;  // of the buffer: to be dropped at the next call
  std::size_t parts_ = 0;
  FormDataPart part_;
  std::string_view data_;
  std::string fault_;
  bool finished_ = false;
};

}  // namespace sluice::api
