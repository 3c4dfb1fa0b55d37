#include "api/require.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <ranges>
#include <utility>

#include "api/decimal.h"
#include "base/json.h"
#include "http/identity.h"

namespace sluice::api {
namespace {

using Kind = Requirement::Kind;

struct Function {
  std::string_view name;
  Kind kind;
  bool of_values;  // the arguments are values; if false, expressions or SQL
  std::size_t least;
  std::size_t most;
};
constexpr std::array functions{
    Function{"eq", Kind::eq, true, 2, 2},           Function{"ne", Kind::ne, true, 2, 2},
    Function{"in", Kind::in, true, 2, SIZE_MAX},    Function{"contains", Kind::contains, true, 2, 2},
    Function{"present", Kind::present, true, 1, 1}, Function{"and", Kind::all, false, 1, SIZE_MAX},
    Function{"or", Kind::any, false, 1, SIZE_MAX},  Function{"not", Kind::negation, false, 1, 1},
    Function{"exists", Kind::exists, false, 1, 1},
};

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         (static_cast<unsigned char>(c) & 0x80) != 0;
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  std::expected<Requirement, RequirementFault> whole() {
    Requirement root;
    if (!expression(root, 0)) return std::unexpected(std::move(fault_));
    skip_blanks();
    if (at_ != text_.size()) {
      (void)refuse(at_, "nothing may follow the expression");
      return std::unexpected(std::move(fault_));
    }
    return root;
  }

 private:
  bool refuse(std::size_t offset, std::string message) {
    fault_ = {offset, std::move(message)};
    return false;
  }
  void skip_blanks() {
    while (at_ < text_.size() && is_json_blank(text_[at_])) ++at_;
  }
  bool take(char c) {
    skip_blanks();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  bool expression(Requirement& into, std::size_t depth) {
    skip_blanks();
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    const std::string_view name = text_.substr(begin, at_ - begin);
    const auto function = std::ranges::find(functions, name, &Function::name);
    if (function == functions.end()) {
      return refuse(begin, "an expression begins with eq, ne, in, contains, present, and, or, not or exists");
    }
    if (depth == deepest_requirement) return refuse(begin, "too many expressions within each other");
    if (!take('(')) return refuse(at_, "\"(\" is missing behind \"" + std::string(name) + "\"");
    into.kind = function->kind;
    into.offset = begin;
    if (into.kind == Kind::exists) return sql(into);
    std::size_t count = 0;
    if (!take(')')) {
      do {
        if (function->of_values ? !value(into.operands.emplace_back())
                                : !expression(into.parts.emplace_back(), depth + 1)) {
          return false;
        }
        ++count;
      } while (take(','));
      if (!take(')')) return refuse(at_, "\",\" or \")\" is missing");
    }
    if (count < function->least || count > function->most) {
      const std::string least = std::to_string(function->least);
      return refuse(begin,
                    "\"" + std::string(name) + "\" takes " + least + (function->most == SIZE_MAX ? " or more" : ""));
    }
    const bool of_claim =
        into.kind != Kind::contains || (into.operands[0].source && into.operands[0].source->from == From::claim);
    if (!of_claim) return refuse(into.operands[0].offset, "\"contains\" looks into a list, which only a claim is");
    return true;
  }

  bool value(Operand& into) {
    skip_blanks();
    into.offset = at_;
    if (take('\'')) {
      for (;; ++at_) {
        if (at_ == text_.size()) return refuse(into.offset, "a text without its end");
        if (text_[at_] == '\'') {
          if (at_ + 1 == text_.size() || text_[at_ + 1] != '\'') break;
          ++at_;
        }
        into.text += text_[at_];
      }
      ++at_;
      return true;
    }
    const std::size_t begin = at_;
    while (at_ < text_.size() && !is_json_blank(text_[at_]) &&
           std::string_view(",()'\"").find(text_[at_]) == std::string_view::npos) {
      ++at_;
    }
    into.text = text_.substr(begin, at_ - begin);
    if (into.text.empty()) return refuse(begin, "a value is missing");
    if (into.text == "true" || into.text == "false" || sql::fits(sql::ParameterType::real, into.text)) return true;
    auto source = parse_source(into.text);
    if (!source) return refuse(begin, "a value " + source.error() + ", or is 'text', a number, true or false");
    if (source->from == From::body || source->from == From::upload)
      return refuse(begin, "the body is not read before the request is allowed");
    into.source = std::move(*source);
    return true;
  }

  // Reads to the closing parenthesis. `claim.sub` becomes a parameter of the same length, to keep positions.
  bool sql(Requirement& into) {
    into.offset = at_;
    std::size_t open = 1;
    char before = ' ';
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\'' || c == '"') {
        const auto end = text_.find(c, at_ + 1);
        if (end == text_.npos) return refuse(at_, "a quote without its end");
        copy(into, end + 1);
      } else if (text_.substr(at_).starts_with("--") || text_.substr(at_).starts_with("/*")) {
        return refuse(at_, "no comments here");
      } else if (c == '$' || c == ';') {
        return refuse(at_, std::string("no \"") + c + "\" here");
      } else if (c == ')' && --open == 0) {
        ++at_;
        if (into.sql.find_first_not_of(" \t\r\n") == std::string::npos)
          return refuse(into.offset, "a statement is missing");
        return true;
      } else if (!is_word(before) && before != '.' && before != ':' && text_.substr(at_).starts_with("claim.")) {
        if (!claim(into)) return false;
      } else {
        open += c == '(' ? 1 : 0;
        copy(into, at_ + 1);
      }
      before = text_[at_ - 1];
    }
    return refuse(into.offset, "\")\" is missing");
  }
  void copy(Requirement& into, std::size_t end) {
    into.sql += text_.substr(at_, end - at_);
    at_ = end;
  }
  bool claim(Requirement& into) {
    const std::size_t begin = at_;
    while (at_ < text_.size() && (is_word(text_[at_]) || text_[at_] == '.')) ++at_;
    const std::string_view written = text_.substr(begin, at_ - begin);
    std::string key(written.substr(std::string_view("claim.").size()));
    if (key.empty() || key.ends_with('.') || key.contains("..") || key.starts_with('.')) {
      return refuse(begin, "the claim's name is missing");
    }
    std::string parameter(written.substr(1));
    std::ranges::replace(parameter, '.', '_');
    const auto same = std::ranges::find(into.claims, parameter, &std::pair<std::string, std::string>::first);
    if (same == into.claims.end()) {
      into.claims.emplace_back(parameter, std::move(key));
    } else if (same->second != key) {
      return refuse(begin, "too much like the claim \"" + same->second + "\"");
    }
    into.sql += ':' + parameter;
    return true;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  RequirementFault fault_;
};

Source source_at(std::string_view text, const http::Pattern& pattern, const RequireOptions* options = nullptr) {
  Named<ColumnOptions> column;
  column.name.value = text;
  column.value.from = Located<std::string>(std::string(text));
  if (options != nullptr) {
    const auto variable = options->environment.find(column.name.value);
    if (variable != options->environment.end()) column.value.environment = variable->second;
  }
  return column_source(column, pattern);
}

}  // namespace

std::expected<Requirement, RequirementFault> parse_requirement(std::string_view text) { return Parser(text).whole(); }

std::string exists_statement(std::string_view sql) {
  std::string text = "SELECT EXISTS (";
  text += sql;
  return text += ')';
}

void Guards::add(const RequireOptions& options, const http::Pattern& pattern, std::span<const Source> declared) {
  Rule rule;
  rule.written = std::make_unique<const Requirement>(*parse_requirement(options.that.value));
  rule.root = make(*rule.written, options, pattern, declared, true);
  rule.status = static_cast<int>(options.status.value);
  rule.has_status = options.status.position.line != 0 || options.status.value != 403;
  rule.detail = options.detail.empty() ? "This is not permitted." : options.detail;
  rules_.push_back(std::move(rule));
}

Guards::Node Guards::make(const Requirement& written, const RequireOptions& options, const http::Pattern& pattern,
                          std::span<const Source> declared, bool must_hold) {
  Node node{.kind = written.kind, .sources = {}, .parts = {}, .query = queries_.size()};
  for (const Operand& operand : written.operands) {
    if (operand.source) {
      Source& source = node.sources.emplace_back(source_at(operand.text, pattern, &options));
      for (const Source& one : declared) {
        if (one.from != source.from || one.key != source.key) continue;
        source.trim |= one.trim;
        if (written.kind != Kind::present) source.default_text = one.default_text;
        if (one.allowed) source.allowed = one.allowed;
        if (!one.checked) continue;
        source.checked = true;
        source.type = one.type;
      }
    } else {
      Source literal;
      literal.from = From::environment;
      literal.default_text = operand.text;
      node.sources.push_back(std::move(literal));
    }
  }
  if (written.kind == Kind::exists) {
    queries_.push_back(
        {.written = &written, .options = &options, .statement = {}, .sources = {}, .must_hold = must_hold});
  }
  must_hold = must_hold && written.kind == Kind::all;
  for (const Requirement& part : written.parts) {
    node.parts.push_back(make(part, options, pattern, declared, must_hold));
  }
  return node;
}

void Guards::prepared(std::size_t query, sql::Statement statement, const EndpointOptions& endpoint,
                      const http::Pattern& pattern) {
  Query& into = queries_[query];
  for (const sql::Parameter& parameter : statement.parameters) {
    const auto claim =
        std::ranges::find(into.written->claims, parameter.name, &std::pair<std::string, std::string>::first);
    into.sources.push_back(claim == into.written->claims.end() ? source_of(parameter, endpoint.params, pattern, false)
                                                               : source_at("claim." + claim->second, pattern));
    take_type(into.sources.back(), statement, into.sources.size() - 1);
  }
  into.statement = std::move(statement);
  into.statement.one_row = true;
  into.options = nullptr;
}

void Guards::add_to(QueryNames& query) const {
  for (const Rule& rule : rules_) add_to(query, rule.root);
  for (const Query& one : queries_) query.add(one.sources);
}

void Guards::add_to(QueryNames& query, const Node& node) {
  query.add(node.sources);
  for (const Node& part : node.parts) add_to(query, part);
}

std::vector<int> Guards::statuses() const {
  std::vector<int> statuses;
  for (const Rule& rule : rules_) statuses.push_back(rule.status);
  return statuses;
}

namespace {

struct Compared {
  std::string text;
  sql::ParameterType type = sql::ParameterType::text;  // text if the type is unknown
  bool is_ours = false;                                // from the configuration
};

// Whether the values are equal. If the type of one side is known, notations of the same value are equal. The other side
// must then be in the type's canonical notation unless it comes from the configuration: a database may read "2e0" as 2,
// but an issuer of names treats them as two names. Returns nullopt if a value is invalid or not canonical.
std::optional<bool> same(const Compared& a, const Compared& b) {
  using sql::ParameterType;
  if (a.type == ParameterType::text && b.type == ParameterType::text) return a.text == b.text;
  const ParameterType type = a.type == ParameterType::text || b.type == ParameterType::integer ? b.type : a.type;
  const auto value_of = [type](const Compared& one) {
    auto value = canonical(type, one.text);
    if (value && one.type != type && !one.is_ours && *value != one.text) value.reset();
    return value;
  };
  const auto left = value_of(a);
  const auto right = value_of(b);
  if ((!left && !a.is_ours) || (!right && !b.is_ours)) return std::nullopt;
  return left && left == right;
}

// Whether a double preserves all digits of the number.
bool is_exact(std::string_view text) {
  double number = 0;
  (void)std::from_chars(text.data(), text.data() + text.size(), number);
  char shortest[32];
  const auto end = std::to_chars(shortest, shortest + sizeof shortest, number).ptr;
  const auto written = parse_decimal(text);
  return written && written == parse_decimal({shortest, static_cast<std::size_t>(end - shortest)});
}

}  // namespace

// The evaluation of one request. A query whose result cannot change the verdict is not requested.
struct Guards::Case {
  const http::Exchange& exchange;
  std::span<const std::optional<bool>> known;
  Binder binder;
  std::optional<http::Response> refusal;  // for a value that cannot be read
  std::optional<std::size_t> wanted;

  std::optional<Compared> value(const Source& source) {
    std::vector<sql::Argument> found;
    if (auto bound = binder.bind({&source, 1}, exchange, {}, found); !bound) {
      if (!refusal) refusal = refuse_value(bound.error());
      return std::nullopt;
    }
    if (!found[0].text) return std::nullopt;
    Compared compared{.text = std::string(*found[0].text), .is_ours = source.from == From::environment};
    const http::Claim* const claim = source.from == From::claim ? claim_of(source) : nullptr;
    if (source.checked && !sql::is_list(source.type)) {
      compared.type = source.type;
    } else if (claim != nullptr && claim->kind == http::Claim::Kind::number) {
      compared.type = sql::ParameterType::real;
    }
    // A database would round these digits, and then use another value than the one compared here.
    if (source.checked && source.type == sql::ParameterType::real && !is_exact(compared.text)) {
      if (!refusal) refusal = refuse_value({&source, "has more digits than a number keeps"});
      return std::nullopt;
    }
    return compared;
  }
  const http::Claim* claim_of(const Source& source) const {
    const http::Claims* const claims = http::claims_of(exchange);
    return claims != nullptr ? claims->find(source.key) : nullptr;
  }
  static Truth truth(std::optional<bool> holds) {
    if (!holds) return Truth::neither;
    return *holds ? Truth::yes : Truth::no;
  }
  static Truth opposite(Truth one) { return one > Truth::yes ? one : truth(one == Truth::no); }
  Truth equal(const Source& one, const Source& other) {
    const auto a = value(one);
    const auto b = value(other);
    return a && b ? truth(same(*a, *b)) : Truth::no;
  }
  Truth contains(const Source& list, const Source& item) {
    const http::Claim* const claim = claim_of(list);
    const auto wanted_item = value(item);
    Truth found = Truth::no;
    if (claim == nullptr || !wanted_item) return found;
    if (claim->kind == http::Claim::Kind::string && http::is_scope(claim->path)) {
      for (const auto& part : std::views::split(claim->text, ' ')) {
        if (part.empty()) continue;
        const Truth is_it = truth(same({.text = std::string(part.begin(), part.end())}, *wanted_item));
        if (is_it == Truth::yes) return is_it;
        found = std::max(found, is_it);
      }
    }
    for (const http::Claim& one : claim->items) {
      if (one.kind == http::Claim::Kind::null) continue;
      Compared compared{.text = std::string(one.text)};
      if (one.kind == http::Claim::Kind::number) compared.type = sql::ParameterType::real;
      const Truth is_it = truth(same(compared, *wanted_item));
      if (is_it == Truth::yes) return is_it;
      found = std::max(found, is_it);
    }
    return found;
  }

  Truth evaluate(const Node& node) {
    switch (node.kind) {
      case Kind::eq:
        return equal(node.sources[0], node.sources[1]);
      case Kind::ne:
        return opposite(equal(node.sources[0], node.sources[1]));
      case Kind::in: {
        Truth found = Truth::no;
        for (std::size_t i = 1; i < node.sources.size() && found != Truth::yes; ++i) {
          const Truth one = equal(node.sources[0], node.sources[i]);
          if (one != Truth::no) found = one;
        }
        return found;
      }
      case Kind::contains:
        return contains(node.sources[0], node.sources[1]);
      case Kind::present:
        return truth(value(node.sources[0]).has_value());
      case Kind::all:
        return combine(node, Truth::no);
      case Kind::any:
        return combine(node, Truth::yes);
      case Kind::negation:
        return opposite(evaluate(node.parts[0]));
      case Kind::exists:
        if (node.query < known.size() && known[node.query]) return truth(*known[node.query]);
        if (!wanted) wanted = node.query;
        return Truth::unknown;
    }
    return Truth::no;
  }
  // One part with the value `decisive` decides. Queries of the other parts are then not requested.
  Truth combine(const Node& node, Truth decisive) {
    const auto wanted_before = wanted;
    Truth result = decisive == Truth::no ? Truth::yes : Truth::no;
    for (const Node& part : node.parts) {
      const Truth one = evaluate(part);
      if (one == decisive) {
        wanted = wanted_before;
        return decisive;
      }
      result = std::max(result, one);
    }
    return result;
  }
};

Guards::Verdict Guards::judge(const http::Exchange& exchange, std::span<const std::optional<bool>> known) const {
  Case one{.exchange = exchange, .known = known, .binder = {}, .refusal = {}, .wanted = {}};
  std::optional<std::size_t> wanted;
  for (const Rule& rule : rules_) {
    one.wanted.reset();
    const Truth truth = one.evaluate(rule.root);
    if (one.refusal) return {.refusal = std::move(one.refusal), .wanted = {}};
    if (truth == Truth::no || truth == Truth::neither) return {.refusal = refuse(rule, exchange), .wanted = {}};
    if (truth == Truth::unknown && !wanted) wanted = one.wanted;
  }
  return {.refusal = {}, .wanted = wanted};
}

http::Response Guards::refuse(const Rule& rule, const http::Exchange& exchange) const {
  if (rule.has_status || !depends_on_claims(rule.root)) return http::problem(rule.status, rule.detail);
  return http::refuse_permission(exchange, rule.detail);
}

bool Guards::depends_on_claims(const Node& node) const {
  const auto is_claim = [](const Source& source) { return source.from == From::claim; };
  if (std::ranges::any_of(node.sources, is_claim)) return true;
  if (node.kind == Kind::exists) return std::ranges::any_of(queries_[node.query].sources, is_claim);
  return std::ranges::any_of(node.parts, [&](const Node& part) { return depends_on_claims(part); });
}

std::string_view Guards::credential() const {
  for (const Query& query : queries_) {
    if (const auto name = credential_of(query.sources); !name.empty()) return name;
  }
  return {};
}

namespace {
bool says_yes(std::span<const sql::Field> row) {
  return !row.empty() && !row[0].is_null() && (row[0].view() == "t" || row[0].view() == "1" || row[0].view() == "true");
}
}  // namespace

core::Task<std::optional<http::Response>> Guards::ask(const http::Exchange& exchange, sql::Database& database,
                                                      const sql::QueryOptions& options,
                                                      const Failures& failures) const {
  std::vector<std::optional<bool>> known(queries_.size());
  std::vector<sql::Argument> arguments;
  for (;;) {
    Verdict verdict = judge(exchange, known);
    if (!verdict.wanted) co_return std::move(verdict.refusal);
    const Query& query = queries_[*verdict.wanted];
    arguments.clear();
    Binder binder;
    if (auto bound = binder.bind(query.sources, exchange, {}, arguments); !bound) co_return refuse_value(bound.error());
    auto cursor = co_await database.query(query.statement, arguments, options);
    if (!cursor) co_return failures.answer(cursor.error(), Failed::reading, {}, query.sources);
    bool yes = false;
    for (bool last = false; !last;) {
      auto block = co_await (*cursor)->next();
      if (!block) co_return failures.answer(block.error(), Failed::reading, {}, query.sources);
      if (block->rows != 0) yes = says_yes(block->row(0));
      last = block->last;
    }
    known[*verdict.wanted] = yes;
  }
}

core::Task<sql::Result<std::optional<http::Response>>> Guards::ask(const http::Exchange& exchange,
                                                                   sql::Transaction& transaction,
                                                                   std::span<const Source>& refused) const {
  std::vector<std::optional<bool>> known(queries_.size());
  std::vector<sql::Argument> arguments;
  for (;;) {
    Verdict verdict = judge(exchange, known);
    if (!verdict.wanted) co_return std::move(verdict.refusal);
    const Query& query = queries_[*verdict.wanted];
    arguments.clear();
    Binder binder;
    if (auto bound = binder.bind(query.sources, exchange, {}, arguments); !bound) {
      co_return std::optional(refuse_value(bound.error()));
    }
    auto done = co_await transaction.execute(query.statement, arguments);
    if (!done) {
      refused = query.sources;
      co_return std::unexpected(std::move(done.error()));
    }
    known[*verdict.wanted] = done->rows.rows != 0 && says_yes(done->rows.row(0));
  }
}

}  // namespace sluice::api
