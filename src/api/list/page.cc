#include "api/list/page.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "api/list/cursor.h"
#include "api/query_names.h"
#include "http/query_string.h"
#include "sql/postgres/types.h"

namespace sluice::api::list {
namespace {

constexpr std::string_view end_of_list = "end";  // a cursor behind the last row

http::Response refuse(const query::Refused& refused) { return refuse_parameter(refused.parameter, refused.detail); }

std::optional<std::uint64_t> number_of(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// `items=0-19`, `items=20-`: the first row, and how many.
std::optional<std::pair<std::uint64_t, std::optional<std::uint64_t>>> parse_range(std::string_view text) {
  if (!text.starts_with("items=")) return std::nullopt;
  text.remove_prefix(6);
  const std::size_t dash = text.find('-');
  if (dash == text.npos) return std::nullopt;
  const auto first = number_of(text.substr(0, dash));
  if (!first) return std::nullopt;
  if (dash + 1 == text.size()) return std::pair(*first, std::nullopt);
  const auto last = number_of(text.substr(dash + 1));
  if (!last || *last < *first || *last == UINT64_MAX) return std::nullopt;
  return std::pair(*first, std::optional(*last - *first + 1));
}

// A preference (RFC 7240) such as `count=exact`.
bool prefers(const http::Request& request, std::string_view preference) {
  for (const http::Field& field : request.fields) {
    if (!http::same_name(field.name, "Prefer")) continue;
    for (std::string_view rest = field.value; !rest.empty();) {
      const std::size_t end = std::min(rest.find_first_of(",;"), rest.size());
      if (trimmed(rest.substr(0, end)) == preference) return true;
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
  return false;
}

// A part of a query string within <...>.
void append_reference(std::string& out, std::string_view text) {
  const auto is_plain = [](char c) { return c > 0x20 && c < 0x7F && c != '<' && c != '>' && c != '"' && c != '\\'; };
  while (true) {
    const std::size_t plain = static_cast<std::size_t>(std::ranges::find_if_not(text, is_plain) - text.begin());
    out.append(text, 0, plain);
    if (plain == text.size()) return;
    fmt::format_to(std::back_inserter(out), "%{:02X}", static_cast<unsigned char>(text[plain]));
    text.remove_prefix(plain + 1);
  }
}

}  // namespace

std::optional<http::Response> Page::read(const http::Exchange& exchange, std::string& text) {
  const http::Request& request = exchange.request;
  query_text_ = request.query;
  auto parsed = query::parse(list_.vocabulary, request.query);
  if (!parsed) return refuse(parsed.error());
  query_ = *std::move(parsed);
  read_fields(request);
  if (auto refusal = read_bounds()) return refusal;
  arguments_.reserve(8);
  if (auto bound = binder_.bind(plan_.sources, exchange, {}, arguments_); !bound) return refuse_value(bound.error());
  statement_.emplace(list_, plan_.statement, query_, arguments_);
  if (auto added = statement_->add_conditions(); !added) return refuse(added.error());
  conditions_ = arguments_.size();
  digest_ = statement_->digest();
  if (auto refusal = read_cursor()) return refusal;
  statement_->finish(limit_ + 1, offset_, counts(), text);
  return std::nullopt;
}

void Page::read_fields(const http::Request& request) {
  if (list_.vocabulary.counts && query_.count == query::Count::none && request.has_field("Prefer")) {
    if (prefers(request, "count=exact")) query_.count = query::Count::exact;
    if (prefers(request, "count=estimated")) query_.count = query::Count::estimated;
    prefers_count_ = query_.count != query::Count::none;
  }
  if (query_.limit || query_.offset || query_.after || query_.before || !request.has_field("Range")) return;
  if (const auto range = parse_range(request.field("Range"))) {
    has_range_ = true;
    query_.offset = range->first;
    query_.limit = std::min(range->second.value_or(list_.standard_limit), list_.most_rows);
  }
}

std::optional<http::Response> Page::read_bounds() {
  limit_ = query_.limit.value_or(list_.standard_limit);
  offset_ = query_.offset.value_or(0);
  if (limit_ > list_.most_rows) return refuse_parameter("limit", fmt::format("up to {} is possible", list_.most_rows));
  if (offset_ > list_.max_offset) {
    return refuse_parameter(
        "offset", fmt::format("up to {} is possible; the references of the Link field lead further", list_.max_offset));
  }
  if (query_.after && query_.before) return refuse_parameter("before", "it cannot stand beside `after`");
  if ((query_.after || query_.before) && query_.offset) {
    return refuse_parameter("offset", "it cannot stand beside `after` and `before`");
  }
  return std::nullopt;
}

std::optional<http::Response> Page::read_cursor() {
  if (!query_.after && !query_.before) return std::nullopt;
  backward_ = query_.before.has_value();
  const std::string_view text = backward_ ? *query_.before : *query_.after;
  from_end_ = backward_ && text == end_of_list;
  if (from_end_) {
    statement_->turn_around();
    return std::nullopt;
  }
  const auto values = list::read_cursor(text, digest_, statement_->keys().size(), list_.dialect);
  if (!values) {
    return refuse_parameter(backward_ ? "before" : "after",
                            "it is no cursor of this list with these conditions and this order");
  }
  statement_->add_cursor(*values, backward_ ? StatementText::Direction::backward : StatementText::Direction::forward);
  return std::nullopt;
}

sql::Shape Page::make_shape(std::string_view text) const {
  sql::Shape shape{.statement = plan_.statement, .shown = statement_->shown()};
  sql::Statement& statement = shape.statement;
  statement.text = text;
  statement.parameters.resize(arguments_.size());
  statement.parameter_types = plan_.statement.described_types;
  statement.columns = statement_->described(counts());
  return shape;
}

sql::Statement Page::explaining(std::string text, std::size_t arguments, std::uint32_t column_type) const {
  sql::Statement statement;
  statement.text = std::move(text);
  statement.parameters.resize(arguments);
  statement.parameter_types = plan_.statement.described_types;
  statement.columns.push_back(
      {.name = "QUERY PLAN", .type = sql::postgres::builtin_type(column_type), .type_id = column_type});
  return statement;
}

sql::Statement Page::explained(std::string_view explain, std::string_view text) const {
  constexpr std::uint32_t text_oid = 25;
  return explaining(std::string(explain).append(text), arguments_.size(), text_oid);
}

sql::Statement Page::explanation() const {
  constexpr std::uint32_t json_oid = 114;
  return explaining("EXPLAIN (FORMAT JSON) " + statement_->conditions_alone(), conditions_, json_oid);
}

void Page::take_explanation(std::string_view json) {
  constexpr std::string_view member = "\"Plan Rows\": ";
  const std::size_t at = json.find(member);
  if (at == json.npos) return;
  const std::string_view rest = json.substr(at + member.size());
  total_ = number_of(rest.substr(0, rest.find_first_not_of("0123456789")));
}

void Page::take(const sql::Block& block) {
  columns_ = block.columns;
  if (block.last && kept_.empty()) {
    fields_ = block.fields;
    return;
  }
  const std::size_t first = kept_.size();
  kept_.insert(kept_.end(), block.fields.begin(), block.fields.end());
  std::size_t bytes = 0;
  for (const sql::Field& field : block.fields) bytes += field.size;
  char* to = copies_.emplace_back(std::make_unique_for_overwrite<char[]>(bytes + 1)).get();
  for (sql::Field& field : std::span(kept_).subspan(first)) {
    if (field.is_null()) continue;
    std::memcpy(to, field.data, field.size);
    field.data = std::exchange(to, to + field.size);
  }
  fields_ = kept_;
}

// Reads the total, drops the row that only tells that there is more, and turns a backward page around.
void Page::settle() {
  if (std::exchange(is_settled_, true) || columns_.empty()) return;
  const std::size_t width = columns_.size();
  std::size_t rows = fields_.size() / width;
  if (counts() && rows != 0) {
    total_ = number_of(fields_[width - 1].view());
    if (fields_[width - 2].is_null()) rows = 0;  // the page is empty; the row has the total alone
  }
  has_more_ = rows > limit_;
  rows = std::min<std::size_t>(rows, limit_);
  // The planner may know less than the page.
  if (asks_planner() && total_ && (rows != 0 || offset_ == 0)) {
    total_ = std::max(*total_, offset_ + rows + (has_more_ ? 1 : 0));
  }
  row_count_ = rows;
}

sql::Block Page::rows() {
  settle();
  const std::size_t width = columns_.size();
  const std::size_t shown = statement_->shown();
  sql::Block block{.columns = columns_.first(std::min(shown, width)), .fields = {}, .rows = row_count_, .last = true};
  if (width == shown && !backward_) {
    block.fields = fields_.first(row_count_ * width);
    return block;
  }
  shown_.reserve(row_count_ * shown);
  for (std::size_t i = 0; i < row_count_; ++i) {
    const auto row = fields_.subspan(place_of(i) * width, shown);
    shown_.insert(shown_.end(), row.begin(), row.end());
  }
  block.fields = shown_;
  return block;
}

void Page::describe(http::Response& response) const {
  response.fields.add_owned("Link", links());
  const bool is_from_start = !query_.after && !query_.before;
  if (total_) response.fields.add_owned("X-Total-Count", std::to_string(*total_));
  if (row_count_ != 0 && is_from_start && (total_ || has_range_)) {
    const std::string total = total_ ? std::to_string(*total_) : "*";
    response.fields.add_owned("Content-Range", fmt::format("items {}-{}/{}", offset_, offset_ + row_count_ - 1, total));
    if (has_range_) response.status = 206;
  } else if (row_count_ == 0 && is_from_start && total_) {
    response.fields.add_owned("Content-Range", "items */" + std::to_string(*total_));
  }
  if (list_.vocabulary.counts) response.fields.add_trusted("Vary", "Prefer");
  if (prefers_count_) {
    response.fields.add_trusted("Preference-Applied",
                                query_.count == query::Count::exact ? "count=exact" : "count=estimated");
  }
}

// The cursor of a row of the answer.
std::string Page::cursor_of(std::size_t row) const {
  const auto& columns = statement_->columns();
  const auto fields = fields_.subspan(place_of(row) * columns_.size(), columns_.size());
  std::vector<CursorValue> values;
  values.reserve(statement_->keys().size());
  for (const query::Key& key : statement_->keys()) {
    const auto at = static_cast<std::size_t>(std::ranges::find(columns, key.column) - columns.begin());
    values.push_back(cursor_value(fields[at], list_.dialect));
  }
  return write_cursor(digest_, values);
}

// The request's own parameters but for those that say which page it is.
void Page::append_own_query(std::string& to) const {
  for (http::QueryPairs pairs(query_text_); !pairs.done();) {
    const auto pair = pairs.next();
    const auto is = [&](std::string_view name) { return http::equals_decoded(pair.name, name); };
    if (is("limit") || is("offset") || is("after") || is("before")) continue;
    append_reference(to, pair.name);
    to += '=';
    append_reference(to, pair.value);
    to += '&';
  }
  to.append("limit=").append(std::to_string(limit_));
}

std::string Page::links() const {
  std::string links;
  links.reserve(4 * query_text_.size() + 256);
  links += "<?";
  append_own_query(links);
  const std::size_t own_end = links.size();
  links += ">; rel=\"first\"";
  const auto add = [&](std::string_view parameter, std::string_view value, std::string_view relation) {
    links.append(", ").append(links, 0, own_end).append("&").append(parameter).append("=").append(value);
    links.append(">; rel=\"").append(relation).append("\"");
  };
  const bool has_before = backward_ ? has_more_ : query_.after || offset_ != 0;
  const bool has_cursors = list_.vocabulary.pages;
  if (has_before && row_count_ != 0 && has_cursors) {
    add("before", cursor_of(0), "prev");
  } else if (has_before && offset_ != 0) {
    add("offset", std::to_string(offset_ - std::min(offset_, std::max<std::uint64_t>(limit_, 1))), "prev");
  }
  if ((backward_ ? !from_end_ : has_more_) && row_count_ != 0) {
    const std::uint64_t next = offset_ + row_count_;
    if (has_cursors) {
      add("after", cursor_of(row_count_ - 1), "next");
    } else if (next <= list_.max_offset) {
      add("offset", std::to_string(next), "next");
    }
  }
  if (total_ && counts() && limit_ != 0) {
    const std::uint64_t last = *total_ == 0 ? 0 : (*total_ - 1) / limit_ * limit_;
    const bool is_reached = last <= list_.max_offset;
    if (is_reached || has_cursors)
      add(is_reached ? "offset" : "before", is_reached ? std::to_string(last) : std::string(end_of_list), "last");
  }
  return links;
}

}  // namespace sluice::api::list
