#include "api/resident/query.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "http/query_string.h"

namespace sluice::api::resident {
namespace {

constexpr std::size_t most_echoed = 64;  // bytes of a parameter's name in an answer

struct Operator {
  std::string_view name;
  enum class Kind : std::uint8_t { eq, in, gt, gte, lt, lte, is } kind;
};
constexpr Operator operators[] = {
    {"eq", Operator::Kind::eq}, {"in", Operator::Kind::in},   {"gt", Operator::Kind::gt}, {"gte", Operator::Kind::gte},
    {"lt", Operator::Kind::lt}, {"lte", Operator::Kind::lte}, {"is", Operator::Kind::is}};

// Removes the operator at the beginning of the text. Without an operator it is equality.
Operator::Kind take_operator(std::string_view& text) {
  const std::size_t dot = text.find('.');
  if (dot == text.npos || dot > 3) return Operator::Kind::eq;
  for (const Operator& one : operators) {
    if (text.substr(0, dot) != one.name) continue;
    text.remove_prefix(dot + 1);
    return one.kind;
  }
  return Operator::Kind::eq;
}

bool is_range(Operator::Kind kind) { return kind >= Operator::Kind::gt && kind <= Operator::Kind::lte; }

class Parser {
 public:
  Parser(const Table& table, std::string_view query) : table_(table), text_(query) {}

  std::expected<Query, Refused> run() {
    while (!text_.empty()) {
      const std::size_t end = std::min(text_.find('&'), text_.size());
      std::string_view pair = text_.substr(0, end);
      text_.remove_prefix(std::min(end + 1, text_.size()));
      if (pair.empty()) continue;
      const std::size_t equals = pair.find('=');
      if (!decode(pair.substr(0, equals), name_)) {
        return refuse(std::string(pair.substr(0, std::min(equals, most_echoed))), "its name has a broken escape");
      }
      if (equals == pair.npos) return refuse(name_, "it has no value");
      if (!decode(pair.substr(equals + 1), value_)) return refuse(name_, "its value has a broken escape");
      if (!take()) return std::unexpected(std::move(*refused_));
    }
    return std::move(query_);
  }

 private:
  std::unexpected<Refused> refuse(std::string parameter, std::string detail) {
    if (parameter.size() > most_echoed) parameter.resize(most_echoed);
    return std::unexpected(Refused{.parameter = std::move(parameter), .detail = std::move(detail)});
  }
  bool fail(std::string detail) {
    refused_ = refuse(name_, std::move(detail)).error();
    return false;
  }

  static bool decode(std::string_view raw, std::string& out) {
    out.clear();
    return http::append_decoded(raw, out);
  }

  bool take() {
    if (name_ == "limit") return take_count(query_.limit, has_limit_);
    if (name_ == "offset") return take_count(query_.offset, has_offset_);
    if (name_ == "sort") return take_sort();
    if (name_ == "fields") return take_fields();
    return take_condition();
  }

  // The names of the columns for which `is` is true.
  template <class Is>
  std::string columns_that(Is is) const {
    std::vector<std::string_view> names;
    for (std::size_t i = 0; i < table_.columns().size(); ++i) {
      if (is(i)) names.push_back(table_.columns()[i].name);
    }
    return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
  }
  std::string indexed() const {
    return columns_that([&](std::size_t i) { return table_.index_of(i) != nullptr; });
  }
  std::string sortable() const {
    return columns_that([&](std::size_t i) { return table_.index_of(i) && table_.index_of(i)->type().orders(); });
  }

  bool take_count(std::uint64_t& count, bool& is_given) {
    if (std::exchange(is_given, true)) return fail("it comes twice");
    const char* const end = value_.data() + value_.size();
    const auto [stop, error] = std::from_chars(value_.data(), end, count);
    if (error == std::errc{} && stop == end && !value_.empty()) return true;
    return fail("a whole number from 0 on is possible");
  }

  // The comma-separated list of names; nullopt if it is empty.
  std::optional<std::string_view> whole_value() const {
    return value_.empty() ? std::nullopt : std::optional<std::string_view>(value_);
  }
  static std::string_view take_name(std::optional<std::string_view>& rest) {
    const std::size_t comma = rest->find(',');
    const std::string_view name = rest->substr(0, comma);
    if (comma == rest->npos) {
      rest.reset();
    } else {
      rest->remove_prefix(comma + 1);
    }
    return name;
  }

  bool take_sort() {
    for (std::optional<std::string_view> rest = whole_value(); rest;) {
      std::string_view name = take_name(rest);
      Order order;
      order.descending = name.starts_with('-');
      if (order.descending) name.remove_prefix(1);
      const auto column = table_.find_column(name);
      order.index = column ? table_.index_of(*column) : nullptr;
      if (order.index == nullptr || !order.index->type().orders()) {
        return fail(fmt::format("{}; sorted can be by: {}",
                                !column ? fmt::format("there is no field \"{}\"", name.substr(0, most_echoed))
                                        : fmt::format("\"{}\" cannot be sorted by", name),
                                sortable()));
      }
      if (std::ranges::find(query_.order, order.index, &Order::index) != query_.order.end()) {
        return fail(fmt::format("\"{}\" comes twice", name));
      }
      query_.order.push_back(order);
    }
    if (query_.order.empty()) return fail("it names no field; sorted can be by: " + sortable());
    return true;
  }

  bool take_fields() {
    for (std::optional<std::string_view> rest = whole_value(); rest;) {
      const std::string_view name = take_name(rest);
      const auto column = table_.find_column(name);
      if (!column) {
        return fail(fmt::format("there is no field \"{}\"; there are: {}", name.substr(0, most_echoed),
                                columns_that([](std::size_t) { return true; })));
      }
      const auto index = static_cast<std::uint32_t>(*column);
      if (std::ranges::find(query_.fields, index) != query_.fields.end()) {
        return fail(fmt::format("\"{}\" comes twice", name));
      }
      query_.fields.push_back(index);
    }
    if (query_.fields.empty()) {
      return fail("it names no field; there are: " + columns_that([](std::size_t) { return true; }));
    }
    return true;
  }

  bool take_condition() {
    const auto column = table_.find_column(name_);
    const Index* const index = column ? table_.index_of(*column) : nullptr;
    if (index == nullptr) {
      return fail(fmt::format("{}; possible are: {}, sort, limit, offset, fields",
                              column ? "rows are not found by this field" : "there is no such parameter", indexed()));
    }
    if (query_.conditions.size() == most_conditions) return fail("there are too many conditions");
    Condition condition{.index = index, .kind = Condition::Kind::values, .values = {}, .range = {}};
    std::string_view text = value_;
    const Operator::Kind kind = take_operator(text);
    if (kind == Operator::Kind::is) {
      if (text != "null" && text != "not_null") return fail("possible are: is.null, is.not_null");
      condition.kind = text == "null" ? Condition::Kind::null : Condition::Kind::not_null;
    } else if (kind == Operator::Kind::in) {
      if (!take_list(*index, text, condition)) return false;
    } else if (is_range(kind)) {
      if (!index->type().orders()) {
        return fail(fmt::format(
            "a field of {}; possible are: eq, in, is",
            index->type().is_single() ? "this type is compared as equal or not alone" : "several values has no order"));
      }
      Key key;
      if (!key_of(*index, text, key)) return false;
      condition.kind = Condition::Kind::range;
      const bool above = kind == Operator::Kind::gt || kind == Operator::Kind::lte;
      const std::uint32_t rank = index->rank(key, above);
      const bool upwards = kind == Operator::Kind::gt || kind == Operator::Kind::gte;
      condition.range = upwards ? Index::Range{rank, index->values()} : Index::Range{0, rank};
    } else {
      if (!add_value(*index, text, condition)) return false;
    }
    query_.conditions.push_back(std::move(condition));
    return true;
  }

  bool key_of(const Index& index, std::string_view text, Key& key) {
    if (make_asked_key(index.type(), text, scratch_, key)) return true;
    return fail(fmt::format("{} is possible, also behind eq., in.(){}; or is.null, is.not_null", describe(index.type()),
                            index.type().orders() ? ", gt., gte., lt., lte." : ""));
  }

  bool add_value(const Index& index, std::string_view text, Condition& condition) {
    Key key;
    if (!key_of(index, text, key)) return false;
    add_id(index.find(key), condition);
    if (make_asked_text_key(index.type(), text, scratch_, key)) add_id(index.find(key), condition);
    if (make_asked_bytes_key(index.type(), text, scratch_, key)) add_id(index.find(key), condition);
    return true;
  }
  static void add_id(std::uint32_t id, Condition& condition) {
    if (id != Dictionary::none && std::ranges::find(condition.values, id) == condition.values.end()) {
      condition.values.push_back(id);
    }
  }

  // `(1,2,"a,b")`. In quotes, a backslash escapes a quote or a backslash.
  bool take_list(const Index& index, std::string_view text, Condition& condition) {
    if (!text.starts_with('(') || !text.ends_with(')') || text.size() < 2) return fail("a list is written in.(1,2,3)");
    text = text.substr(1, text.size() - 2);
    std::string item;
    for (std::size_t count = 0; !text.empty(); ++count) {
      if (count == most_values) return fail(fmt::format("a list of up to {} values is possible", most_values));
      item.clear();
      std::size_t at = 0;
      if (text.front() == '"') {
        for (at = 1; at < text.size() && text[at] != '"'; ++at) {
          if (text[at] == '\\' && at + 1 < text.size()) ++at;
          item.push_back(text[at]);
        }
        if (at++ >= text.size() || (at < text.size() && text[at] != ','))
          return fail("a quote of the list does not end");
      } else {
        at = std::min(text.find(','), text.size());
        item = text.substr(0, at);
      }
      if (!add_value(index, item, condition)) return false;
      if (at + 1 == text.size()) return fail("the list ends with a comma");
      text.remove_prefix(std::min(at + 1, text.size()));
    }
    return true;
  }

  const Table& table_;
  std::string_view text_;
  std::string name_;
  std::string value_;
  std::string scratch_;
  bool has_limit_ = false;
  bool has_offset_ = false;
  Query query_;
  std::optional<Refused> refused_;
};

}  // namespace

std::expected<Query, Refused> parse_query(const Table& table, std::string_view query) {
  return Parser(table, query).run();
}

}  // namespace sluice::api::resident
