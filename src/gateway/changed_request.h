#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ascii.h"
#include "base/assert.h"
#include "http/exchange.h"
#include "http/fields.h"

namespace sluice::gateway {

// Whether a server could take one field name for the other. CGI, WSGI and Rack replace `-` by `_`, and PHP replaces
// every character that is neither a letter nor a digit, so that X_User and X.User become X-User.
[[nodiscard]] inline bool is_read_as(std::string_view name, std::string_view other) {
  return std::ranges::equal(name, other, [](char a, char b) {
    const auto normal = [](char c) { return is_letter(c) || is_digit(c) ? to_lower(c) : '-'; };
    return normal(a) == normal(b);
  });
}

// Writes a request's target with another query string into `text`, which the request then refers to.
class ChangedQuery {
 public:
  // `text` outlives the request, and is not the text of its target.
  ChangedQuery(http::Request& request, std::string& text) : request_(request), text_(text) {
    SLUICE_ASSERT(request.target.ends_with(request.query));
    text_ = request.target.substr(0, request.target.size() - request.query.size());
    if (text_.ends_with('?')) text_.pop_back();
    path_size_ = text_.size();
  }
  // Begins the next parameter, which the caller appends to the text.
  void begin(char separator = '&') { text_ += text_.size() == path_size_ ? '?' : separator; }
  // Gives the request the target and the query string.
  void apply() {
    request_.target = text_;
    request_.query = request_.target.substr(std::min(path_size_ + 1, text_.size()));
  }

 private:
  http::Request& request_;
  std::string& text_;
  std::size_t path_size_ = 0;
};

class ChangedRequests;

// A request's fields as changed by a policy, for the filters and the handler after it, and for the logs. Views into the
// original request stay valid.
struct ChangedRequest {
  std::vector<http::Field> fields;
  std::size_t own = 0;               // the number of fields at the end that policies have set
  std::string text;                  // text that fields refer to
  std::string id;                    // the request id, if a field refers to it
  std::vector<std::string> cookies;  // values of Set-Cookie for the answer

  // Adds a field of the request, with `value` as its value. Call it in the order of the request's fields.
  void keep(const http::Request& request, const http::Field& field, std::string_view value) {
    const auto index = static_cast<std::size_t>(&field - request.fields.data());
    own += index + request.own_fields >= request.fields.size() ? 1 : 0;
    fields.push_back({field.name, value});
  }
  // Adds a field after those of the request.
  void set(std::string_view name, std::string_view value) {
    ++own;
    fields.push_back({name, value});
  }
  // Gives the request these fields.
  void apply(http::Request& request) const {
    request.fields = fields;
    request.own_fields = own;
  }

  // For ChangedRequests.
  ChangedRequests* home = nullptr;
  std::unique_ptr<ChangedRequest> earlier;  // made by an earlier policy for the same request
};

// The changed requests of one policy on one core. Their memory is reused.
class ChangedRequests {
 public:
  // Returns an empty one, which lives as long as the attributes of the exchange.
  [[nodiscard]] ChangedRequest& take(http::Exchange& exchange) {
    auto* all = exchange.attributes.find<OfExchange>();
    if (all == nullptr) all = &exchange.attributes.set(OfExchange());
    if (spare_.empty()) spare_.push_back(std::make_unique<ChangedRequest>());
    std::unique_ptr<ChangedRequest> taken = std::move(spare_.back());
    spare_.pop_back();
    taken->home = this;
    taken->earlier = std::move(all->newest);
    all->newest = std::move(taken);
    return *all->newest;
  }

 private:
  // The attribute.
  struct OfExchange {
    OfExchange() = default;
    OfExchange(OfExchange&&) = default;
    OfExchange& operator=(OfExchange&&) = default;
    ~OfExchange() {
      while (newest != nullptr) {
        auto ended = std::exchange(newest, std::move(newest->earlier));
        ChangedRequests& home = *ended->home;
        home.give_back(std::move(ended));
      }
    }

    std::unique_ptr<ChangedRequest> newest;
  };

  static constexpr std::size_t most_spare = 64;
  static constexpr std::size_t most_text = 16 * 1024;

  void give_back(std::unique_ptr<ChangedRequest> taken) {
    if (spare_.size() >= most_spare || taken->text.capacity() > most_text) return;
    taken->fields.clear();
    taken->own = 0;
    taken->text.clear();
    taken->id.clear();
    taken->cookies.clear();
    spare_.push_back(std::move(taken));
  }

  std::vector<std::unique_ptr<ChangedRequest>> spare_;
};

}  // namespace sluice::gateway
