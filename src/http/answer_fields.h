#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/buffer.h"

namespace sluice::http {

// The fields that every answer has besides its own: Date, Server, and those of a configuration. One core's.
class AnswerFields {
 public:
  using List = std::vector<std::pair<std::string, std::string>>;
  static constexpr std::size_t max_configured = 32;

  // `server_name`: empty: no Server field. `fields` of every answer, and `secure_fields` of those over TLS besides, at
  // most max_configured each; they are valid, and none that a connection writes itself.
  explicit AnswerFields(std::string server_name = "sluice", const List& fields = {}, const List& secure_fields = {});

  [[nodiscard]] const std::string& server_name() const { return server_name_; }
  // The configured ones, with names in lower case.
  [[nodiscard]] const List& configured(bool secure) const { return configured_[secure ? 1 : 0]; }

  // As HTTP/1.1 has them. Views until the next call.
  struct Lines {
    std::string_view all;         // Date and Server among them
    std::string_view configured;  // the last part of these
  };
  // `date`: h1::DateCache's, in this second since 1970.
  [[nodiscard]] Lines lines(bool secure, std::string_view date, std::int64_t second) {
    if (second != second_) [[unlikely]]
      set_date(date, second);
    const std::string_view all = lines_[secure ? 1 : 0].view();
    return {.all = all, .configured = all.substr(configured_from_)};
  }

 private:
  void set_date(std::string_view date, std::int64_t second);

  const std::string server_name_;
  std::array<List, 2> configured_;  // [1]: over TLS
  std::array<Buffer, 2> lines_;
  std::size_t configured_from_ = 0;
  std::int64_t second_ = -1;
};

}  // namespace sluice::http
