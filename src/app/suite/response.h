#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/buffer.h"
#include "http/client/response_parser.h"
#include "http/h1/chunked.h"
#include "http/h1/parser.h"

namespace sluice::app::suite {

struct Answer {
  unsigned status = 0;
  std::vector<std::pair<std::string, std::string>> fields;  // of the header section, in order
  std::string body;

  // The value of the first field with that name; the case of the name does not matter. Null if absent.
  [[nodiscard]] const std::string* field(std::string_view name) const;
};

// Reads one HTTP/1.1 response, in any split of its bytes and without I/O. It is stricter than
// http::client::ResponseParser, because with a lenient client a test could pass that should fail: the version must be
// 1.1, the status line must be complete, there may be only one length, and no bytes may follow the body. Skips interim
// responses (1xx).
class ResponseReader {
 public:
  static constexpr std::size_t longest_body = 64 << 20;

  enum class State : std::uint8_t {
    more,    // the response is not complete
    done,    // see answer()
    broken,  // see problem()
  };

  // The method of the request decides whether there is a body.
  explicit ResponseReader(std::string_view method) : method_(http::parse_method(method)) {}

  [[nodiscard]] State feed(std::string_view bytes);
  // The server has closed the connection.
  [[nodiscard]] State end();

  [[nodiscard]] Answer& answer() { return answer_; }
  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  State fail(std::string_view problem);
  State read_head();
  State read_body();

  http::Method method_;
  http::client::ResponseParser parser_{{.head_size = 65535, .field_count = 4096}};
  http::h1::ChunkedDecoder chunks_;
  Buffer in_;  // received and not yet parsed
  bool has_head_ = false;
  http::h1::BodyFraming body_;  // valid once has_head_; its length is the part not received yet
  Answer answer_;
  std::string problem_;
};

}  // namespace sluice::app::suite
