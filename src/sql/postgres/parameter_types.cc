#include "sql/postgres/parameter_types.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>
#include <utility>

#include "sql/postgres/messages.h"

namespace sluice::sql::postgres {
namespace {

std::uint32_t oid_of(ParameterType type) {
  switch (type) {
    case ParameterType::integer:
      return 20;  // int8
    case ParameterType::real:
      return 701;  // float8
    case ParameterType::boolean:
      return 16;
    case ParameterType::bytes:
      return 17;  // bytea
    case ParameterType::text:
      break;
    case ParameterType::texts:
      return 1009;
    case ParameterType::integers:
      return 1016;
    case ParameterType::reals:
      return 1022;
    case ParameterType::booleans:
      return 1000;
  }
  return text_oid;
}

bool is_blank(char byte) { return byte == ' ' || (byte >= '\t' && byte <= '\r'); }

// Whether the statement casts the placeholder: $1::text, or CAST($1 AS text).
bool is_cast(std::string_view sql, const ParsedSql::Placeholder& placeholder) {
  std::string_view after = sql.substr(placeholder.end);
  while (!after.empty() && is_blank(after.front())) after.remove_prefix(1);
  if (after.starts_with("::")) return true;
  if (after.size() < 3 || (after[0] | 0x20) != 'a' || (after[1] | 0x20) != 's' || !is_blank(after[2])) return false;
  std::string_view before = sql.substr(0, placeholder.begin);
  const auto skip_blanks = [&] {
    while (!before.empty() && is_blank(before.back())) before.remove_suffix(1);
  };
  skip_blanks();
  if (!before.ends_with('(')) return false;
  before.remove_suffix(1);
  skip_blanks();
  if (before.size() < 4) return false;
  constexpr std::string_view word = "cast";
  return std::equal(word.begin(), word.end(), before.end() - 4, [](char a, char b) { return a == (b | 0x20); });
}

// The number after the last dollar sign; 0 if absent.
std::uint32_t number_in(std::string_view text) {
  const auto dollar = text.rfind('$');
  std::uint32_t number = 0;
  if (dollar != text.npos) (void)std::from_chars(text.data() + dollar + 1, text.data() + text.size(), number);
  return number;
}

std::uint32_t number_of(const ParsedSql& parsed, const ParsedSql::Placeholder& placeholder) {
  return number_in(std::string_view(parsed.text).substr(placeholder.begin, placeholder.end - placeholder.begin));
}

// Returns the statement with another number for one of its placeholders.
ParsedSql renumbered(const ParsedSql& parsed, std::size_t placeholder, std::uint32_t number) {
  ParsedSql result = parsed;
  ParsedSql::Placeholder& changed = result.placeholders[placeholder];
  const std::string text = "$" + std::to_string(number);
  result.text.replace(changed.begin, changed.end - changed.begin, text);
  const auto longer = static_cast<std::uint32_t>(text.size()) - (changed.end - changed.begin);  // modulo 2^32
  changed.end += longer;
  for (std::size_t i = placeholder + 1; i < result.placeholders.size(); ++i) {
    result.placeholders[i].begin += longer;
    result.placeholders[i].end += longer;
  }
  return result;
}

// Describes one statement that is being prepared.
class Describer {
 public:
  Describer(Query& conversation, std::string_view source, const ParsedSql& parsed,
            std::span<const Parameter> parameters)
      : conversation_(conversation), source_(source), parsed_(parsed), parameters_(parameters) {}

  // `types` are the known types; 0: to be inferred. If the server cannot infer the type of a use, or infers another
  // type than before, that use gets its own parameter number until the types of the other uses are known.
  core::Task<Result<TypedDescription>> settle(std::vector<std::uint32_t> types) {
    constexpr std::string_view ambiguous = "42P08";
    constexpr std::string_view indeterminate = "42P18";
    ParsedSql asked = parsed_;
    std::vector<std::uint32_t> asked_types = types;
    std::vector<std::uint32_t> split;
    for (;;) {
      auto described = co_await describe(conversation_, asked.text, asked_types);
      if (described && described->parameters.size() != asked_types.size()) {
        co_return std::unexpected(
            Error{Failure::lost, {}, "the server counts the statement's parameters differently", 0});
      }
      if (described) {
        if (split.empty()) co_return TypedDescription{std::move(asked_types), std::move(*described)};
        asked_types.resize(types.size());
        for (const std::uint32_t number : split) asked_types[number - 1] = described->parameters[number - 1];
        break;
      }
      const Error& error = described.error();
      const bool known = error.failure == Failure::statement;
      if (known && error.sqlstate == indeterminate) {
        const std::uint32_t number = number_in(error.message);
        if (number != 0 && number <= asked_types.size() && asked_types[number - 1] == 0) {
          const bool own = number <= parameters_.size();
          asked_types[number - 1] =
              own ? oid_of(parameters_[number - 1].declared.value_or(ParameterType::text)) : text_oid;
          continue;
        }
      } else if (known && error.sqlstate == ambiguous && error.position != 0) {
        const auto place = std::ranges::find(asked.placeholders, byte_offset(asked.text, error.position),
                                             &ParsedSql::Placeholder::begin);
        const std::uint32_t number = place == asked.placeholders.end() ? 0 : number_of(asked, *place);
        if (number != 0 && number <= parameters_.size()) {
          split.push_back(number);
          asked_types.push_back(0);
          const auto index = static_cast<std::size_t>(place - asked.placeholders.begin());
          asked = renumbered(asked, index, static_cast<std::uint32_t>(asked_types.size()));
          continue;
        }
      }
      co_return std::unexpected(located(std::move(described.error()), asked));
    }
    auto described = co_await describe(conversation_, parsed_.text, asked_types);
    if (described) co_return TypedDescription{std::move(asked_types), std::move(*described)};
    co_return std::unexpected(located(std::move(described.error()), parsed_));
  }

  // The server infers text for a parameter without context (`SELECT $1`). Such a parameter gets the type that the
  // configuration declares. If the server refuses that (`lower($1)`, `name = $1`), it stays text.
  core::Task<Result<void>> apply_declared(TypedDescription& found) {
    std::vector<std::uint32_t> wanted = found.types;
    std::vector<std::size_t> candidates;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const std::uint32_t type = oid_of(parameters_[i].declared.value_or(ParameterType::text));
      if (type == text_oid || found.description.parameters[i] != text_oid) continue;
      if (std::ranges::any_of(parsed_.placeholders, [&](const auto& one) {
            return number_of(parsed_, one) == i + 1 && is_cast(parsed_.text, one);
          })) {
        continue;
      }
      wanted[i] = type;
      candidates.push_back(i);
    }
    if (candidates.empty()) co_return Result<void>{};

    // Try all of them at once. If that is refused, try them one by one, each with those accepted before.
    std::vector<std::uint32_t> types = wanted;
    for (std::size_t next = 0;;) {
      auto described = co_await describe(conversation_, parsed_.text, types);
      if (!described && described.error().failure != Failure::statement) {
        co_return std::unexpected(std::move(described.error()));
      }
      if (described) {
        found = {types, std::move(*described)};
        if (next == 0) co_return Result<void>{};
      }
      if (next == candidates.size() || candidates.size() == 1) co_return Result<void>{};
      types = found.types;
      types[candidates[next]] = wanted[candidates[next]];
      ++next;
    }
  }

  core::Task<Result<TypedDescription>> run() {
    std::vector<std::uint32_t> types(parameters_.size(), 0);
    auto found = co_await settle(types);
    if (!found && found.error().failure == Failure::statement) {
      // The server needs the types to choose an operator or function: `:a + :b`, an overloaded function.
      for (std::size_t i = 0; i < types.size(); ++i) {
        if (parameters_[i].declared) types[i] = oid_of(*parameters_[i].declared);
      }
      if (std::ranges::any_of(types, [](std::uint32_t type) { return type != 0; })) {
        if (auto typed = co_await settle(std::move(types))) found = std::move(typed);
      }
    }
    if (!found) {
      explain(found.error());
      co_return std::unexpected(std::move(found.error()));
    }
    if (auto applied = co_await apply_declared(*found); !applied) {
      co_return std::unexpected(std::move(applied.error()));
    }
    if (std::ranges::all_of(found->types, [](std::uint32_t type) { return type == 0; })) found->types.clear();
    co_return std::move(*found);
  }

 private:
  // `asked`: the statement that was sent.
  Error located(Error error, const ParsedSql& asked) const {
    if (error.position == 0) return error;
    const auto byte = static_cast<std::uint32_t>(byte_offset(asked.text, error.position));
    error.position = character_position(source_, asked.source_offset(byte));
    return error;
  }

  // Extends the error if an operator or a function does not accept the type that another use of a parameter requires.
  void explain(Error& error) const {
    if (error.failure != Failure::statement || (error.sqlstate != "42883" && error.sqlstate != "42804")) return;
    std::string repeated;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const auto places = std::ranges::count_if(parsed_.placeholders,
                                                [&](const auto& one) { return number_of(parsed_, one) == i + 1; });
      if (places > 1) repeated += (repeated.empty() ? ":" : ", :") + parameters_[i].name;
    }
    if (repeated.empty()) return;
    error.message += "; a parameter that comes several times (" + repeated +
                     ") has one type: write a cast where another is needed, as in id::text = :q";
  }

  Query& conversation_;
  std::string_view source_;
  const ParsedSql& parsed_;
  std::span<const Parameter> parameters_;
};

}  // namespace

core::Task<Result<TypedDescription>> describe_typed(Query& conversation, std::string_view source,
                                                    const ParsedSql& parsed, std::span<const Parameter> parameters) {
  Describer describer(conversation, source, parsed, parameters);
  co_return co_await describer.run();
}

}  // namespace sluice::sql::postgres
