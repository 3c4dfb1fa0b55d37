#include "api/query/query.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "http/query_string.h"

namespace sluice::api::query {
namespace {

constexpr std::size_t most_echoed = 64;  // bytes of a name in an answer

constexpr std::array<std::pair<std::string_view, Operator>, 9> operators{{{"eq", Operator::eq},
                                                                          {"neq", Operator::neq},
                                                                          {"gt", Operator::gt},
                                                                          {"gte", Operator::gte},
                                                                          {"lt", Operator::lt},
                                                                          {"lte", Operator::lte},
                                                                          {"in", Operator::in},
                                                                          {"is", Operator::is},
                                                                          {"like", Operator::like}}};
constexpr std::array<std::string_view, 13> reserved{"limit", "offset", "sort", "fields", "after",   "before", "q",
                                                    "count", "or",     "and",  "not.or", "not.and", "not"};

std::string echoed(std::string_view name) { return std::string(name.substr(0, most_echoed)); }

bool take_prefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

// Removes the operator and its dot from the front of the text.
std::optional<Operator> take_operator(std::string_view& text) {
  const std::size_t dot = text.substr(0, 5).find('.');
  if (dot == text.npos) return std::nullopt;
  const auto known = std::ranges::find(operators, text.substr(0, dot), &decltype(operators)::value_type::first);
  if (known == operators.end()) return std::nullopt;
  text.remove_prefix(dot + 1);
  return known->second;
}

template <class Is>
std::string names_of(const Vocabulary& vocabulary, Is is) {
  std::vector<std::string_view> names;
  for (const Column& column : vocabulary.columns) {
    if (is(column)) names.push_back(column.name);
  }
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

class Parser {
 public:
  Parser(const Vocabulary& vocabulary, std::string_view query) : words_(vocabulary), text_(query) {}

  std::expected<Query, Refused> run() {
    for (http::QueryPairs pairs(text_); !pairs.done();) {
      const auto pair = pairs.next();
      name_.clear();
      value_.clear();
      if (!http::append_decoded(pair.name, name_)) {
        name_ = pair.name;
        (void)fail("its name has a broken escape");
      } else if (!http::append_decoded(pair.value, value_)) {
        (void)fail("its value has a broken escape");
      } else {
        (void)take(pairs);
      }
      if (refused_) return std::unexpected(std::move(*refused_));
    }
    return std::move(query_);
  }

 private:
  bool fail(std::string detail) {
    refused_ = Refused{.parameter = echoed(name_), .detail = std::move(detail)};
    return false;
  }

  bool take(const http::QueryPairs& rest) {
    if (const auto column = words_.find(name_); column && words_.columns[*column].filters) {
      // A field of a form that was left empty.
      if (value_.empty() && words_.skips_empty) return true;
      query_.conditions.reserve(4);
      std::string_view text = value_;
      return take_comparison(*column, text, Ends::whole, query_.conditions.emplace_back());
    }
    if (words_.others.knows(name_)) {
      return !rest.has(name_) || words_.others.takes_list(name_) || fail("it comes more than once");
    }
    if (name_ == "limit") return take_number(query_.limit);
    if (name_ == "offset") return take_number(query_.offset);
    if (name_ == "sort") return take_sort();
    if (name_ == "fields") return take_fields();
    if (words_.pages && name_ == "after") return take_once(query_.after);
    if (words_.pages && name_ == "before") return take_once(query_.before);
    if (words_.counts && name_ == "count") return take_count();
    if (words_.searches && name_ == "q") return take_words();
    std::string_view name = name_;
    const bool negated = take_prefix(name, "not.");
    if (name == "or" || name == "and") return take_top_group(name == "or", negated);
    return words_.any || fail_unknown();
  }

  bool fail_unknown() {
    std::string possible = names_of(words_, [](const Column& column) { return column.filters; });
    possible = possible == "none" ? "" : possible + ", ";
    possible += "sort, limit, offset, fields, or, and";
    if (words_.searches) possible += ", q";
    if (words_.pages) possible += ", after, before";
    if (words_.counts) possible += ", count";
    for (const std::string_view name : words_.others.all()) possible.append(", ").append(name);
    return fail(fmt::format("{}; possible are: {}",
                            words_.find(name_) ? "rows are not found by this field" : "there is no such parameter",
                            possible));
  }

  bool take_number(std::optional<std::uint64_t>& number) {
    if (number) return fail("it comes twice");
    const char* const end = value_.data() + value_.size();
    const auto [stop, error] = std::from_chars(value_.data(), end, number.emplace());
    if (error == std::errc{} && stop == end && !value_.empty()) return true;
    return fail("a whole number from 0 on is possible");
  }

  bool take_once(std::optional<std::string>& text) {
    if (text) return fail("it comes twice");
    text = value_;
    return true;
  }

  bool take_count() {
    if (query_.count != Count::none) return fail("it comes twice");
    query_.count = value_ == "exact" ? Count::exact : value_ == "estimated" ? Count::estimated : Count::none;
    return query_.count != Count::none || fail("possible are: exact, estimated");
  }

  bool take_words() {
    if (std::exchange(has_words_, true)) return fail("it comes twice");
    constexpr std::string_view blanks = " \t\r\n\f\v";
    for (std::string_view rest = value_;;) {
      rest.remove_prefix(std::min(rest.find_first_not_of(blanks), rest.size()));
      if (rest.empty()) return true;
      if (++conditions_ > words_.bounds.conditions) return fail("there are too many words");
      query_.words.emplace_back(rest.substr(0, rest.find_first_of(blanks)));
      rest.remove_prefix(query_.words.back().size());
    }
  }

  bool take_sort() {
    if (!query_.sort.empty()) return fail("it comes twice");
    auto keys = parse_order(words_, value_);
    if (!keys) return fail(std::move(keys.error()));
    query_.sort = *std::move(keys);
    return true;
  }

  bool take_fields() {
    if (!query_.fields.empty()) return fail("it comes twice");
    const auto there_are = [&] {
      return "there are: " + names_of(words_, [](const Column& column) { return column.shows; });
    };
    if (value_.empty()) return fail("it names no field; " + there_are());
    for (std::string_view rest = value_;;) {
      const std::string_view name = rest.substr(0, rest.find(','));
      const auto column = words_.find(name);
      if (!column || !words_.columns[*column].shows) {
        return fail(fmt::format("there is no field \"{}\"; {}", echoed(name), there_are()));
      }
      if (std::ranges::find(query_.fields, *column) != query_.fields.end()) {
        return fail(fmt::format("\"{}\" comes twice", name));
      }
      query_.fields.push_back(*column);
      if (name.size() == rest.size()) return true;
      rest.remove_prefix(name.size() + 1);
    }
  }

  // Where a value ends.
  enum class Ends : std::uint8_t {
    whole,     // with the parameter
    in_group,  // at a comma or a closing parenthesis, unless it is in quotes
  };

  // The operator and the value of a column.
  bool take_comparison(std::size_t column, std::string_view& text, Ends ends, Condition& into) {
    if (++conditions_ > words_.bounds.conditions) return fail_too_many();
    into.column = column;
    std::string_view behind = text;
    const bool negated = take_prefix(behind, "not.");
    if (const auto op = take_operator(behind)) {
      into.op = *op;
      into.negated = negated;
      text = behind;
    } else if (ends == Ends::in_group) {
      return fail(fmt::format("an operator is missing behind \"{}\"", words_.columns[column].name));
    }
    if (!may_have(words_.columns[column], into.op)) return false;
    if (into.op == Operator::in) return take_list(text, ends, into);
    std::string& value = into.values.emplace_back();
    if (ends == Ends::in_group) {
      if (!take_value(text, ",)", value)) return false;
    } else {
      value = text;
    }
    return into.op != Operator::is || check_is(words_.columns[column], value);
  }

  bool fail_too_many() { return fail(fmt::format("up to {} conditions are possible", words_.bounds.conditions)); }

  bool may_have(const Column& column, Operator op) {
    const bool is_range = op >= Operator::gt && op <= Operator::lte;
    if (is_range && !column.orders) {
      return fail(fmt::format("the values of \"{}\" have no order; possible are: eq, neq, in, is", column.name));
    }
    return op != Operator::like || column.is_text || fail(fmt::format("\"{}\" is not a text", column.name));
  }

  bool check_is(const Column& column, std::string_view value) {
    if (value == "null" || value == "not_null") return true;
    if (column.is_boolean && (value == "true" || value == "false")) return true;
    return fail(column.is_boolean ? "possible are: is.null, is.not_null, is.true, is.false"
                                  : "possible are: is.null, is.not_null");
  }

  // A value up to one of these characters; in quotes, a backslash escapes a quote or a backslash.
  bool take_value(std::string_view& text, std::string_view ends, std::string& value) {
    if (!take_prefix(text, "\"")) {
      value = text.substr(0, text.find_first_of(ends));
      text.remove_prefix(value.size());
      return true;
    }
    std::size_t at = 0;
    for (; at < text.size() && text[at] != '"'; ++at) {
      if (text[at] == '\\' && at + 1 < text.size()) ++at;
      value.push_back(text[at]);
    }
    if (at == text.size()) return fail("a quote does not end");
    text.remove_prefix(at + 1);
    return text.empty() || ends.contains(text.front()) || fail("a comma is missing behind a quote");
  }

  // `(1,2,"a,b")`
  bool take_list(std::string_view& text, Ends ends, Condition& into) {
    constexpr std::string_view form = "a list is written in.(1,2,3)";
    if (!take_prefix(text, "(")) return fail(std::string(form));
    const bool is_whole = ends == Ends::whole;
    if (is_whole) {
      // Without quotes, a value may hold a closing parenthesis.
      if (!text.ends_with(')')) return fail(std::string(form));
      text.remove_suffix(1);
    }
    const std::string_view stops = is_whole ? "," : ",)";
    const auto at_end = [&] { return is_whole ? text.empty() : text.starts_with(')'); };
    while (!at_end()) {
      if (into.values.size() == words_.bounds.values) {
        return fail(fmt::format("a list of up to {} values is possible", words_.bounds.values));
      }
      if (!take_value(text, stops, into.values.emplace_back())) return false;
      if (at_end()) break;
      if (!take_prefix(text, ",")) return fail(std::string(form));
      if (at_end()) return fail("the list ends with a comma");
    }
    if (!is_whole) text.remove_prefix(1);
    return true;
  }

  bool take_top_group(bool any, bool negated) {
    std::string_view text = value_;
    Condition& group = query_.conditions.emplace_back();
    group.negated = negated;
    if (!take_prefix(text, "(")) return fail("a group is written (a.eq.1,b.gt.2)");
    if (!take_group(text, any, 1, group)) return false;
    return text.empty() || fail("something follows the group");
  }

  // The parts of a group, behind its opening parenthesis.
  bool take_group(std::string_view& text, bool any, std::size_t depth, Condition& group) {
    if (depth > words_.bounds.depth) return fail(fmt::format("groups may be {} deep", words_.bounds.depth));
    group.kind = any ? Condition::Kind::any : Condition::Kind::all;
    while (true) {
      if (!take_part(text, depth, group.parts.emplace_back())) return false;
      if (take_prefix(text, ")")) return true;
      if (!take_prefix(text, ",")) return fail("a closing parenthesis is missing");
    }
  }

  bool take_part(std::string_view& text, std::size_t depth, Condition& part) {
    part.negated = take_prefix(text, "not.");
    for (const std::string_view name : {"or(", "and("}) {
      if (take_prefix(text, name)) return take_group(text, name == "or(", depth + 1, part);
    }
    if (part.negated) return fail("`not.` stands before a group, or behind a field");
    std::string name;
    if (!take_value(text, ".,)", name)) return false;
    const auto column = words_.find(name);
    if (!column || !words_.columns[*column].filters) {
      return fail(fmt::format("there is no field \"{}\"; possible are: {}", echoed(name),
                              names_of(words_, [](const Column& one) { return one.filters; })));
    }
    if (!take_prefix(text, ".")) return fail(fmt::format("an operator is missing behind \"{}\"", name));
    return take_comparison(*column, text, Ends::in_group, part);
  }

  const Vocabulary& words_;
  std::string_view text_;
  std::string name_;
  std::string value_;
  std::size_t conditions_ = 0;
  bool has_words_ = false;
  Query query_;
  std::optional<Refused> refused_;
};

}  // namespace

std::optional<std::size_t> Vocabulary::find(std::string_view name) const {
  const auto found = std::ranges::find(columns, name, &Column::name);
  if (found == columns.end()) return std::nullopt;
  return static_cast<std::size_t>(found - columns.begin());
}

bool is_reserved(std::string_view name) { return std::ranges::find(reserved, name) != reserved.end(); }

std::expected<Query, Refused> parse(const Vocabulary& vocabulary, std::string_view query) {
  return Parser(vocabulary, query).run();
}

std::expected<std::vector<Key>, std::string> parse_order(const Vocabulary& vocabulary, std::string_view text,
                                                         bool Column::* possible) {
  const auto by = [&] {
    return "sorted can be by: " + names_of(vocabulary, [&](const Column& column) { return column.*possible; });
  };
  std::vector<Key> keys;
  if (text.empty()) return std::unexpected("it names no field; " + by());
  while (true) {
    const std::string_view item = text.substr(0, text.find(','));
    std::string_view name = item;
    const bool descending = take_prefix(name, "-");
    const auto column = vocabulary.find(name);
    if (!column || !(vocabulary.columns[*column].*possible)) {
      return std::unexpected(column ? fmt::format("\"{}\" cannot be sorted by; {}", name, by())
                                    : fmt::format("there is no field \"{}\"; {}", echoed(name), by()));
    }
    if (std::ranges::find(keys, *column, &Key::column) != keys.end()) {
      return std::unexpected(fmt::format("\"{}\" comes twice", name));
    }
    keys.push_back({*column, descending});
    if (item.size() == text.size()) return keys;
    text.remove_prefix(item.size() + 1);
  }
}

Refused value_fault(const Column& column) {
  if (!column.labels.empty()) {
    return {column.name, fmt::format("possible are: {}", fmt::join(column.labels, ", "))};
  }
  return {column.name, fmt::format("{} is possible, also behind eq., in.(){}; or is.null, is.not_null",
                                   resident::describe(column.type), column.orders ? ", gt., gte., lt., lte." : "")};
}

}  // namespace sluice::api::query
