#pragma once

#include <array>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/task.h"
#include "http/exchange.h"
#include "http/filter.h"
#include "http/handler.h"
#include "http/pin.h"
#include "http/response.h"

namespace sluice::http {

// Whether the request is a CORS preflight (Fetch, 4.8).
[[nodiscard]] bool is_preflight(const Request& request);

// A route on one core, after routing: its handlers, its filters, and every object that they use. The router pins it for
// an exchange before a preflight, a filter or a handler runs. From then on the answer depends on nothing else of the
// router or of the configuration that the route is from, so both may be replaced meanwhile.
class Binding : public Pinned {
 public:
  using Filters = std::vector<std::shared_ptr<Filter>>;

  // `everywhere`: filters that all routes have. `own`: the route's filters, which run after them. `answer_fields`,
  // `is_logged`: as for Pinned.
  explicit Binding(Filters everywhere = {}, Filters own = {}, std::shared_ptr<AnswerFields> answer_fields = nullptr,
                   bool is_logged = true);
  // Destroys what it keeps, the newest first.
  virtual ~Binding();

  // Requests of the method pass these filters instead of the route's own. Called before requests arrive. A CORS
  // preflight passes the filters of the method that it asks for. HEAD follows GET.
  void set_filters(Method method, Filters everywhere, Filters own);

  // Keeps the object alive as long as this.
  void keep(std::shared_ptr<const void> object) { kept_.push_back(std::move(object)); }

  // The filters of a request in the order of their before() calls.
  [[nodiscard]] const Filters& filters(const Request& request) const {
    return *by_method_[static_cast<std::size_t>(request.method)];
  }
  // The methods of the route, as the value of an Allow field; empty if there is no route.
  [[nodiscard]] const std::string& allow(const Request& request) const {
    return request.version == Version::http2 ? allow_http2_ : allow_;
  }
  // `text`: the name of the method.
  [[nodiscard]] bool takes(Method method, std::string_view text) const {
    const auto index = static_cast<std::size_t>(method);
    return (index < handlers_.size() && handlers_[index] != nullptr) || (method == Method::other && takes_other(text));
  }

  // Passes the exchange, which has pinned this, through the filters to the handler of its method.
  [[nodiscard]] core::Async<Response> handle(Exchange& exchange);

 private:
  friend class Router;
  // For bindings that live as long as their router.
  void unpinned() override {}
  [[gnu::always_inline]] core::Async<Response> answer(Exchange& exchange);
  [[nodiscard]] bool takes_other(std::string_view method) const;
  core::Task<Response> answer_later(Exchange& exchange, core::Task<std::optional<Response>> asking);

  bool is_guarded_;  // has filters of its own
  const Filters filters_;
  std::list<Filters> of_methods_;                       // those of set_filters()
  std::array<const Filters*, method_count> by_method_;  // in filters_ or of_methods_
  std::vector<std::shared_ptr<const void>> kept_;
  // Set by Router::add().
  std::array<Handler*, 8> handlers_{};  // by Method, get to connect
  Handler* other_ = nullptr;            // of Method::other
  std::vector<std::string> other_methods_;
  bool upgrades_ = false;
  bool takes_empty_segments_ = false;
  std::string allow_, allow_http2_;
};

}  // namespace sluice::http
