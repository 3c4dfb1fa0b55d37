#include "http/exchange.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "http/answer_fields.h"
#include "http/error_pages.h"
#include "http/filter.h"

namespace sluice::http {

core::Async<std::optional<Response>> Exchange::ask(std::span<const std::shared_ptr<Filter>> filters) {
  SLUICE_ASSERT(asked_ == 0 && filters.size() <= max_filters);
  filters_ = filters;
  while (asked_ != filters_.size()) {
    auto answer = ask_next();
    if (!answer.ready()) return ask_rest(answer.take_task());
    if (answer.get()) return answer;
  }
  return std::optional<Response>();
}

core::Async<std::optional<Response>> Exchange::ask_next() {
  Filter& filter = *filters_[asked_];
  Slot& slot = slots_[asked_++];
  slot = {};
  if (filter.parts != Filter::Parts::before) changing_ = asked_;
  if (filter.parts == Filter::Parts::all) ending_ = asked_;
  return filter.before(*this, slot);
}

core::Task<std::optional<Response>> Exchange::ask_rest(core::Task<std::optional<Response>> first) {
  std::optional<Response> answer = co_await std::move(first);
  while (!answer && asked_ != filters_.size()) answer = co_await ask_next();
  co_return answer;
}

bool Exchange::owns_field(std::string_view name) const {
  return std::ranges::any_of(filters_, [&](const auto& filter) { return filter->owns_field(name); });
}

void Exchange::show_error(Response& response) const {
  const AnswerFields* const fields = pin.answer_fields();
  if (fields != nullptr && fields->error_pages() != nullptr) fields->error_pages()->show(*this, response);
}

void Exchange::filter_slowly(Response& response) {
  for (std::size_t i = changing_; i-- != 0;) filters_[i]->after(*this, slots_[i], response);
}

void Exchange::end_slowly(Outcome outcome) {
  while (ending_ != 0) {
    --ending_;
    filters_[ending_]->ended(*this, slots_[ending_], outcome);
  }
}

std::unique_ptr<Exchange> Exchange::continue_upgraded() {
  if (ending_ == 0) return nullptr;
  auto upgraded = std::make_unique<Exchange>();
  upgraded->kept_.assign(filters_.begin(), filters_.begin() + static_cast<std::ptrdiff_t>(ending_));
  upgraded->filters_ = upgraded->kept_;
  upgraded->slots_ = slots_;
  upgraded->ending_ = std::exchange(ending_, 0);
  asked_ = changing_ = 0;
  return upgraded;
}

}  // namespace sluice::http
