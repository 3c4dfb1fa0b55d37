#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/buffer.h"

namespace sluice::api {

// The boundary of a multipart/form-data Content-Type (RFC 7578, 4.1). Returns nullopt if the type is another one, if
// the field does not parse, or if the boundary is invalid (RFC 2046, 5.1.1).
[[nodiscard]] std::optional<std::string> form_data_boundary(std::string_view content_type);

// type "/" subtype of a Content-Type, in lower case and without parameters. Returns nullopt if it does not parse.
[[nodiscard]] std::optional<std::string> bare_media_type(std::string_view content_type);

// The header of one part.
struct FormDataPart {
  std::string name;
  std::optional<std::string>
      file_name;           // without the folders that some clients send; "" if a form's file field is empty
  std::string media_type;  // in lower case, without parameters; text/plain by default
};

struct FormDataLimits {
  std::size_t parts = 100;
  std::size_t header_bytes = 8192;  // of one part
};

// Reads the parts of a multipart/form-data body (RFC 7578) as they arrive. Call feed() with received bytes, next()
// until it returns need_more, and finish() at the end of the body. It holds the bytes of the last feed() and one part's
// header. It does no I/O. How the body was cut does not affect the parts. A line that starts with the boundary but
// continues with other characters is an error, not data, because other readers would take it for a boundary (RFC 2046,
// 5.1.1).
class FormDataReader {
 public:
  enum class Next : std::uint8_t {
    part,  // part(): a part begins; the following data belongs to it
    data,  // data(): a piece of the part's content
    need_more,
    end,
    broken,  // fault()
  };

  explicit FormDataReader(std::string_view boundary, const FormDataLimits& limits = {});

  // Copies the bytes. Allowed only at first and after next() has returned need_more.
  void feed(std::string_view bytes);
  // Allowed at the same times as feed().
  void finish() { finished_ = true; }
  [[nodiscard]] Next next();
  [[nodiscard]] FormDataPart& part() { return part_; }
  // Valid until the next call of another function.
  [[nodiscard]] std::string_view data() const { return data_; }
  [[nodiscard]] const std::string& fault() const { return fault_; }

 private:
  enum class State : std::uint8_t { preamble, boundary, header, begin, data, epilogue, broken };

  Next break_off(std::string fault);
  // Returns nullopt if only the state has changed.
  std::optional<Next> look_for_boundary();
  std::optional<Next> after_boundary();
  std::optional<Next> read_header();
  std::optional<Next> begin_data();
  [[nodiscard]] std::string parse_header(std::string_view lines);

  const std::string delimiter_;  // including the line end before it
  const FormDataLimits limits_;
  State state_ = State::preamble;
  Buffer buffer_;
  std::size_t given_ = 0;  // bytes of the buffer to drop at the next call
  std::size_t parts_ = 0;
  FormDataPart part_;
  std::string_view data_;
  std::string fault_;
  bool finished_ = false;
};

}  // namespace sluice::api
