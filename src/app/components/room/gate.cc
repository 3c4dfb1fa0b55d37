#include "app/components/room/gate.h"

#include <algorithm>
#include <string>
#include <utility>

#include "api/source.h"
#include "base/buffer.h"
#include "base/json.h"
#include "http/identity.h"
#include "rooms/publication.h"

namespace sluice::app {

RoomGate::RoomGate(std::shared_ptr<const RoomComponent::Prepared> prepared, std::shared_ptr<sql::Database> database,
                   core::Reactor& reactor, TroubleLog& trouble)
    : prepared_(std::move(prepared)),
      database_(std::move(database)),
      reactor_(reactor),
      trouble_(trouble),
      failures_(prepared_->options.path.value, &trouble_, prepared_->get->errors.get(),
                prepared_->get->guards ? prepared_->get->guards->credential() : "") {}

core::Task<std::optional<http::Response>> RoomGate::ask(http::Exchange& exchange) {
  const auto& guards = prepared_->get->guards;
  if (guards == nullptr) co_return std::nullopt;
  co_return co_await guards->ask(exchange, *database_, {.deadline = reactor_.now() + rooms::SqlSource::patience},
                                 failures_);
}

core::Task<std::optional<std::vector<bool>>> RoomGate::judge(const rooms::SharedName& room, Claims claims) {
  const std::shared_ptr<const rooms::Name> name = room;
  std::vector<bool> may_stay(claims.size(), true);
  const auto& guards = prepared_->get->guards;
  if (guards == nullptr) co_return may_stay;
  std::vector<std::vector<bool>> holds;  // by query
  for (const RoomComponent::Question& question : prepared_->questions) {
    auto answer = co_await ask_for_all(question, *name, claims);
    if (!answer) co_return std::nullopt;
    holds.push_back(std::move(*answer));
  }
  for (std::size_t i = 0; i < claims.size(); ++i) {
    http::Exchange exchange;
    if (claims[i] != nullptr) exchange.attributes.set(http::Identity{.claims = claims[i]});
    for (std::size_t n = 0; n < name->values.size(); ++n) exchange.request.path_values[n] = name->values[n];
    std::vector<std::optional<bool>> known;
    for (const std::vector<bool>& of_query : holds) known.emplace_back(of_query[i]);
    may_stay[i] = !guards->judge(exchange, known).refusal;
  }
  co_return may_stay;
}

core::Task<std::optional<std::vector<bool>>> RoomGate::ask_for_all(const RoomComponent::Question& question,
                                                                   const rooms::Name& room, Claims claims) {
  const auto names = prepared_->pattern.names();
  const bool is_postgres = prepared_->published.dialect == sql::Dialect::postgres;
  Buffer list;
  list.push_back('[');
  for (std::size_t i = 0; i < claims.size(); ++i) {
    // PostgreSQL takes members by name, SQLite elements by place.
    if (i != 0) list.push_back(',');
    list.append(is_postgres ? "{\"n\":" : "[");
    list.append(std::to_string(i));
    for (std::size_t k = 0; k < question.sources.size(); ++k) {
      const api::Source& source = question.sources[k];
      std::optional<std::string_view> value;
      if (source.from == api::From::path) {
        const auto place = static_cast<std::size_t>(std::ranges::find(names, source.key) - names.begin());
        value = room.values[place];
      } else if (source.from == api::From::claim && claims[i] != nullptr) {
        if (const http::Claim* const claim = claims[i]->find(source.key)) value = claim->text;
      }
      list.push_back(',');
      if (is_postgres) list.append("\"p" + std::to_string(k + 1) + "\":");
      if (!value) {
        list.append("null");
        continue;
      }
      list.push_back('"');
      append_json_escaped(list, *value);
      list.push_back('"');
    }
    list.push_back(is_postgres ? '}' : ']');
  }
  list.push_back(']');
  const sql::Argument argument{.text = list.view()};
  const auto cursor = co_await database_->query(question.statement, {&argument, 1},
                                                {.deadline = reactor_.now() + rooms::SqlSource::patience});
  std::vector<bool> holds(claims.size(), false);
  std::string wrong = cursor ? "" : cursor.error().message;
  for (bool last = false; !last && wrong.empty();) {
    const auto block = co_await (*cursor)->next();
    if (!block) {
      wrong = block.error().message;
      break;
    }
    last = block->last;
    for (std::size_t i = 0; i < block->rows; ++i) {
      const auto number = rooms::parse_number(block->row(i)[0].view());
      if (number && *number < holds.size()) holds[*number] = true;
    }
  }
  if (!wrong.empty()) {
    trouble_.met(wrong);
    co_return std::nullopt;
  }
  co_return holds;
}

}  // namespace sluice::app
