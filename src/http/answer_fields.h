#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/buffer.h"

namespace sluice::http {

class ErrorPages;

// The fields that the server adds to every response: Date, Server, and the configured ones. Belongs to one core.
class AnswerFields {
 public:
  using List = std::vector<std::pair<std::string, std::string>>;
  static constexpr std::size_t max_configured = 32;

  // An empty `server_name` omits the Server field. `fields` go into every response, `secure_fields` only into responses
  // over TLS. Each list has at most max_configured fields. They must be valid and must not be fields that a connection
  // writes itself.
  explicit AnswerFields(std::string server_name = "sluice", const List& fields = {}, const List& secure_fields = {});

  [[nodiscard]] const std::string& server_name() const { return server_name_; }
  // How errors are shown to people; null: as JSON.
  void show_errors(std::shared_ptr<const ErrorPages> pages) { error_pages_ = std::move(pages); }
  [[nodiscard]] const ErrorPages* error_pages() const { return error_pages_.get(); }
  // The configured fields, with names in lower case.
  [[nodiscard]] const List& configured(bool secure) const { return configured_[secure ? 1 : 0]; }

  // Field lines in HTTP/1.1 format. The views are valid until the next call.
  struct Lines {
    std::string_view all;         // Date, Server and the configured fields
    std::string_view configured;  // only the configured fields: the end of `all`
  };
  // `date` is the text of h1::DateCache for `second`, which counts seconds since 1970.
  [[nodiscard]] Lines lines(bool secure, std::string_view date, std::int64_t second) {
    if (second != second_) [[unlikely]]
      set_date(date, second);
    const std::string_view all = lines_[secure ? 1 : 0].view();
    return {.all = all, .configured = all.substr(configured_from_)};
  }

 private:
  void set_date(std::string_view date, std::int64_t second);

  const std::string server_name_;
  std::shared_ptr<const ErrorPages> error_pages_;
  std::array<List, 2> configured_;  // index 1: over TLS
  std::array<Buffer, 2> lines_;
  std::size_t configured_from_ = 0;
  std::int64_t second_ = -1;
};

}  // namespace sluice::http
