#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "core/task.h"
#include "http/exchange.h"
#include "http/request.h"

namespace sluice::http {

// A request that the program makes itself on behalf of another one. It passes the same routes and filters. Does not
// move, because it has views of itself.
class InnerRequest : public Exchange {
 public:
  // `target`: path and query, escaped. `body`: empty: none. `outer`: memory that is kept for the body counts toward its
  // body; null: toward none.
  InnerRequest(Method method, std::string target, std::string body, BodyReader* outer = nullptr);
  ~InnerRequest() { end({}); }

  // False if the path is invalid.
  [[nodiscard]] bool is_valid() const { return is_valid_; }
  // Views that outlive this.
  void set_fields(std::vector<Field> fields) {
    fields_ = std::move(fields);
    request.fields = fields_;
  }

 private:
  class Body final : public BodyReader {
   public:
    Body(std::string_view text, BodyReader* outer) : text_(text), outer_(outer) {}
    core::Task<Result<std::string_view>> read() override;
    void limit_to(std::uint64_t bytes) override { limit_ = std::min(limit_, bytes); }
    Result<void> keep(std::size_t bytes) override { return outer_ != nullptr ? outer_->keep(bytes) : Result<void>(); }

   private:
    std::string_view text_;
    BodyReader* const outer_;
    std::uint64_t limit_ = UINT64_MAX;
  };

  const std::string target_;
  const std::string body_;
  Body reader_;
  std::vector<Field> fields_;
  std::string segments_;
  std::string path_;
  bool is_valid_ = false;
};

}  // namespace sluice::http
