#include "api/resident/query.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

namespace sluice::api::resident {
namespace {

using query::Operator;

// Makes conditions on indexes of conditions on columns.
class Translation {
 public:
  explicit Translation(const Table& table) : table_(table) {}

  std::expected<Query, Refused> run(const query::Query& asked) {
    Query query;
    query.conditions.reserve(asked.conditions.size());
    for (const query::Condition& condition : asked.conditions) {
      if (!take(condition, false, query.conditions.emplace_back())) return std::unexpected(std::move(*refused_));
    }
    for (const query::Key& key : asked.sort) query.order.push_back({table_.index_of(key.column), key.descending});
    query.offset = asked.offset.value_or(query.offset);
    query.limit = asked.limit.value_or(query.limit);
    query.fields.assign(asked.fields.begin(), asked.fields.end());
    return query;
  }

 private:
  // A negated group becomes a group of negated conditions.
  bool take(const query::Condition& asked, bool negated, Condition& made) {
    negated = negated != asked.negated;
    if (asked.kind == query::Condition::Kind::compare) return take_comparison(asked, negated, made);
    const bool is_any = (asked.kind == query::Condition::Kind::any) != negated;
    made.kind = is_any ? Condition::Kind::any : Condition::Kind::all;
    made.parts.reserve(asked.parts.size());
    return std::ranges::all_of(
        asked.parts, [&](const query::Condition& part) { return take(part, negated, made.parts.emplace_back()); });
  }

  bool take_comparison(const query::Condition& asked, bool negated, Condition& made) {
    const query::Column& column = table_.vocabulary().columns[asked.column];
    made.index = table_.index_of(asked.column);
    made.negated = negated != (asked.op == Operator::neq);
    switch (asked.op) {
      case Operator::is:
        return take_is(column, asked.values.front(), made);
      case Operator::like:
        take_pattern(asked.values.front(), made);
        return true;
      case Operator::gt:
      case Operator::gte:
      case Operator::lt:
      case Operator::lte:
        return take_range(column, asked.op, asked.values.front(), made);
      case Operator::eq:
      case Operator::neq:
      case Operator::in:
        return std::ranges::all_of(asked.values,
                                   [&](const std::string& value) { return add_value(column, value, made); });
    }
    return false;
  }

  bool take_is(const query::Column& column, std::string_view value, Condition& made) {
    if (value == "null" || value == "not_null") {
      const bool is_null = (value == "null") != made.negated;
      if (is_null) made.kind = Condition::Kind::null;
      made.negated = !is_null;
      return true;
    }
    if (!add_value(column, value, made)) return false;
    if (!made.negated) return true;
    // Not true: false or NULL.
    Condition other = std::exchange(made, {.kind = Condition::Kind::any});
    made.parts.push_back({.kind = Condition::Kind::null, .index = other.index});
    made.parts.push_back(std::move(other));
    return true;
  }

  bool take_range(const query::Column& column, Operator op, std::string_view text, Condition& made) {
    Key key;
    if (!key_of(column, text, key)) return false;
    const std::uint32_t rank = made.index->rank(key, op == Operator::gt || op == Operator::lte);
    const bool upwards = (op == Operator::gt || op == Operator::gte) != std::exchange(made.negated, false);
    made.kind = Condition::Kind::range;
    made.range = upwards ? Index::Range{rank, made.index->values()} : Index::Range{0, rank};
    return true;
  }

  void take_pattern(std::string_view text, Condition& made) {
    made.pattern = Pattern(text);
    const Index& index = *made.index;
    Key key;
    if (make_asked_text_key(index.type(), made.pattern.beginning(), scratch_, key))
      made.pattern.set_beginning(key.bytes);
    std::string behind = made.pattern.beginning();  // the next text that does not begin with it
    while (!behind.empty() && behind.back() == '\xff') behind.pop_back();
    if (!behind.empty()) ++behind.back();
    made.range = {index.rank({.bytes = made.pattern.beginning()}, false),
                  behind.empty() ? index.values() : index.rank({.bytes = behind}, false)};
    made.kind = made.pattern.is_beginning() ? Condition::Kind::range : Condition::Kind::like;
  }

  bool key_of(const query::Column& column, std::string_view text, Key& key) {
    if (make_asked_key(column.type, text, scratch_, key)) return true;
    refused_ = query::value_fault(column);
    return false;
  }

  bool add_value(const query::Column& column, std::string_view text, Condition& made) {
    Key key;
    if (!key_of(column, text, key)) return false;
    const Index& index = *made.index;
    add_id(index.find(key), made);
    if (make_asked_text_key(index.type(), text, scratch_, key)) add_id(index.find(key), made);
    if (make_asked_bytes_key(index.type(), text, scratch_, key)) add_id(index.find(key), made);
    return true;
  }
  static void add_id(std::uint32_t id, Condition& made) {
    if (id != Dictionary::none && std::ranges::find(made.values, id) == made.values.end()) made.values.push_back(id);
  }

  const Table& table_;
  std::string scratch_;
  std::optional<Refused> refused_;
};

}  // namespace

std::expected<Query, Refused> parse_query(const Table& table, std::string_view query) {
  const auto asked = query::parse(table.vocabulary(), query);
  if (!asked) return std::unexpected(asked.error());
  return Translation(table).run(*asked);
}

}  // namespace sluice::api::resident
