#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "http/h1/chunked.h"

namespace sluice::app::suite {

struct Answer {
  unsigned status = 0;
  std::vector<std::pair<std::string, std::string>> fields;  // of the header section, in order
  std::string body;

  // The value of the first field with that name; the case of the name does not matter. Null if there is none.
  [[nodiscard]] const std::string* field(std::string_view name) const;
};

// Reads one HTTP/1.1 response, in any split of its bytes and without I/O. It is strict, because with a lenient client a
// test could pass that should fail. Skips interim responses (1xx).
class ResponseReader {
 public:
  static constexpr std::size_t longest_head = 256 << 10;
  static constexpr std::size_t longest_body = 64 << 20;

  enum class State : std::uint8_t {
    more,    // the response is not complete
    done,    // see answer()
    broken,  // see problem()
  };

  // The method of the request decides whether there is a body.
  explicit ResponseReader(std::string_view method) : is_head_(method == "HEAD") {}

  [[nodiscard]] State feed(std::string_view bytes);
  // The server has closed the connection.
  [[nodiscard]] State end();

  [[nodiscard]] Answer& answer() { return answer_; }
  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  enum class Phase : std::uint8_t { head, length, chunked, until_close, complete };

  State fail(std::string problem);
  State read_head();
  State read_fields(std::string_view lines);
  State choose_body();
  State read_body();

  bool is_head_;
  Phase phase_ = Phase::head;
  std::string in_;  // received and not yet parsed
  std::uint64_t left_ = 0;
  http::h1::ChunkedDecoder chunks_;
  Answer answer_;
  std::string problem_;
};

}  // namespace sluice::app::suite
