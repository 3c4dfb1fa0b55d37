#pragma once

#include <cstddef>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/proxy/options.h"
#include "http/handler.h"

namespace sluice::gateway {

// [route.redirect]: redirects clients to another URL.
class Redirect final : public http::Handler {
 public:
  // `names`: the parameters of the route's path, in order. An error says what is wrong with `to`.
  [[nodiscard]] static std::expected<Redirect, std::string> make(const RedirectOptions& options,
                                                                 const std::vector<std::string>& names);

  [[nodiscard]] core::Async<http::Response> handle(http::Exchange& exchange) override;

 private:
  // Text, followed by the value of a parameter.
  struct Part {
    std::string text;
    std::size_t parameter = none;  // its index
  };
  static constexpr std::size_t none = SIZE_MAX;

  explicit Redirect(int status) : status_(status) {}

  int status_;
  std::vector<Part> parts_;
  bool has_query_ = false;
};

}  // namespace sluice::gateway
