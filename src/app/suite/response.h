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
  std::vector<std::pair<std::string, std::string>> fields;  // of the header, in their order
  std::string body;

  // The first of that name, in any case. Null: there is none.
  [[nodiscard]] const std::string* field(std::string_view name) const;
};

// Reads one answer of HTTP/1.1, in any split of its bytes and without I/O: strictly, for a test must not pass because
// its client overlooks something. Interim answers (1xx) are passed over.
class ResponseReader {
 public:
  static constexpr std::size_t longest_head = 256 << 10;
  static constexpr std::size_t longest_body = 64 << 20;

  enum class State : std::uint8_t {
    more,    // it is not complete
    done,    // answer()
    broken,  // problem()
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
  std::string in_;  // not used up
  std::uint64_t left_ = 0;
  http::h1::ChunkedDecoder chunks_;
  Answer answer_;
  std::string problem_;
};

}  // namespace sluice::app::suite
