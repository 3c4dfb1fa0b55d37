#include "app/config/reference.h"

#include <concepts>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string_view>
#include <typeindex>
#include <vector>

#include <fmt/format.h>

#include "app/config/text.h"
#include "app/options.h"
#include "base/declare.h"

namespace sluice::app::config {
namespace {

// The parts of one table of the file, as Markdown.
struct Section {
  std::string rows;
  std::string variants;  // the keys that each `type` adds, as tables
  std::string shorthand;
  std::vector<std::string> below;  // the complete sections of the tables in it
};

std::string table_of(std::string_view rows) {
  return fmt::format("| key | value | default | meaning |\n|---|---|---|---|\n{}\n", rows);
}

std::string code(std::string_view text) { return fmt::format("`{}`", text); }
std::string in_quotes(std::string_view text) { return fmt::format("\"{}\"", text); }

// ", 1 to 64" or ", at least 1"; empty without bounds.
std::string bounds(const Rules& rules, const std::function<std::string(std::int64_t)>& format) {
  if (rules.min.value && rules.max.value)
    return fmt::format(", {} to {}", format(*rules.min.value), format(*rules.max.value));
  if (rules.min.value) return fmt::format(", at least {}", format(*rules.min.value));
  if (rules.max.value) return fmt::format(", at most {}", format(*rules.max.value));
  return {};
}

// For each type of field, type_of() says which values are allowed, and text_of() formats its default ("" for none).

std::string type_of(bool, const Rules&) { return "`true` or `false`"; }
std::string text_of(bool value) { return value ? "true" : "false"; }

template <std::integral T>
std::string type_of(T, const Rules& rules) {
  return "integer" + bounds(rules, [](std::int64_t bound) { return fmt::to_string(bound); });
}
template <std::integral T>
std::string text_of(T value) {
  return fmt::to_string(value);
}

std::string type_of(double, const Rules&) { return "number"; }
std::string text_of(double value) { return fmt::to_string(value); }

std::string type_of(const std::string&, const Rules&) { return "string"; }
std::string text_of(const std::string& value) { return in_quotes(value); }

std::string type_of(Duration, const Rules& rules) {
  return "duration" + bounds(rules, [](std::int64_t bound) { return format_duration(Duration(bound)); });
}
std::string text_of(Duration value) { return in_quotes(format_duration(value)); }

std::string type_of(ByteSize, const Rules& rules) {
  return "size" +
         bounds(rules, [](std::int64_t bound) { return format_size(ByteSize{static_cast<std::uint64_t>(bound)}); });
}
std::string text_of(ByteSize value) { return in_quotes(format_size(value)); }

std::string type_of(const Scalar&, const Rules&) { return "string, number or boolean"; }
std::string text_of(const Scalar& value) { return in_quotes(value.text); }

std::string type_of(const JsonOrFile&, const Rules&) { return "table, JSON in a string, or the path of a file"; }
std::string text_of(const JsonOrFile&) { return {}; }

template <NamedEnum T>
std::string type_of(T, const Rules&) {
  std::string names;
  for (const auto& [name, value] : names_of(T{})) {
    if (!names.empty()) names += ", ";
    names += code(in_quotes(name));
  }
  return names;
}
template <NamedEnum T>
std::string text_of(T wanted) {
  for (const auto& [name, value] : names_of(T{})) {
    if (value == wanted) return in_quotes(name);
  }
  return {};
}

template <class T>
std::string type_of(const Located<T>& value, const Rules& rules) {
  return type_of(value.value, rules);
}
template <class T>
std::string text_of(const Located<T>& value) {
  return text_of(value.value);
}

template <class T>
std::string type_of(const std::optional<T>&, const Rules& rules) {
  return type_of(T{}, rules);
}
template <class T>
std::string text_of(const std::optional<T>& value) {
  return value ? text_of(*value) : "";
}

template <class T>
std::string type_of(const OneOrMore<T>&, const Rules& rules) {
  return fmt::format("{}, or a list of them", type_of(T{}, rules));
}
template <class T>
std::string text_of(const OneOrMore<T>&) {
  return {};
}

std::string type_of(const std::vector<Located<Scalar>>&, const Rules&) {
  return "list of strings, numbers or booleans";
}
template <class T>
std::string type_of(const std::vector<T>&, const Rules&) {
  return fmt::format("list of {}s", type_of(T{}, Rules{}));
}
template <class T>
std::string text_of(const std::vector<T>& values) {
  std::string items;
  for (const T& value : values) {
    if (!items.empty()) items += ", ";
    items += text_of(value);
  }
  return fmt::format("[{}]", items);
}

template <class T>
std::string type_of(const std::vector<Named<T>>&, const Rules&) {
  return fmt::format("table of {}s by name", type_of(T{}, Rules{}));
}
template <class T>
std::string text_of(const std::vector<Named<T>>&) {
  return {};
}

template <Declared S>
std::string describe(const std::string& key, std::string_view header, std::string_view meaning);

template <class S>
class Describer {
 public:
  Describer(const std::string& key, Section& section) : key_(key), section_(section) {}

  template <class T>
  void field(std::string_view name, T S::* member, std::string_view meaning, const Rules& rules = {}) {
    describe_field(name, defaults_.*member, meaning, rules);
  }
  template <class E, class T>
  void variant(Located<E> S::*, E type, T S::*, std::string_view meaning) {
    Section variant;
    Describer<T> describer(key_, variant);
    T::declare(describer);
    section_.variants += fmt::format("`type = {}`: {}\n\n{}", text_of(type), meaning, table_of(variant.rows));
    section_.below.insert(section_.below.end(), variant.below.begin(), variant.below.end());
  }
  void position(Position S::*) {}
  void shorthand(std::string_view name) {
    section_.shorthand = fmt::format("Short form: `{} = …` means `{} = {{ {} = … }}`.\n\n", key_, key_, name);
  }

 private:
  [[nodiscard]] std::string below(std::string_view name) const {
    return key_.empty() ? std::string(name) : fmt::format("{}.{}", key_, name);
  }

  // A table with the same keys as an earlier one of this struct refers to that one.
  template <Declared T>
  void describe_below(const std::string& key, const std::string& header, std::string_view meaning) {
    const auto [first, is_new] = described_.emplace(typeid(T), header);
    section_.below.push_back(is_new
                                 ? describe<T>(key, header, meaning)
                                 : fmt::format("## `{}`\n\n{}\n\nIt has the keys of `{}`, and the tables below it.\n\n",
                                               header, meaning, first->second));
  }

  template <Declared T>
  void describe_field(std::string_view name, const T&, std::string_view meaning, const Rules&) {
    describe_below<T>(below(name), fmt::format("[{}]", below(name)), meaning);
  }
  template <Declared T>
  void describe_field(std::string_view name, const std::optional<T>&, std::string_view meaning, const Rules& rules) {
    describe_field(name, T{}, meaning, rules);
  }
  template <Declared T>
  void describe_field(std::string_view name, const std::vector<T>&, std::string_view meaning, const Rules&) {
    describe_below<T>(below(name), fmt::format("[[{}]]", below(name)), meaning);
  }
  template <Declared T>
  void describe_field(std::string_view name, const OneOrMore<T>&, std::string_view meaning, const Rules&) {
    describe_field(name, std::vector<T>{}, meaning, {});
  }
  template <Declared T>
  void describe_field(std::string_view name, const std::vector<Named<T>>&, std::string_view meaning, const Rules&) {
    std::string named = below(name) + ".NAME";
    describe_below<T>(named, fmt::format("[{}]", named), meaning);
  }
  template <class T>
  void describe_field(std::string_view name, const T& value, std::string_view meaning, const Rules& rules) {
    std::string text = text_of(value);
    std::string standard = rules.required ? "required" : text.empty() || text == "\"\"" ? "" : code(text);
    section_.rows += fmt::format("| `{}` | {} | {} | {} |\n", name, type_of(value, rules), standard, meaning);
  }

  const std::string& key_;
  Section& section_;
  std::map<std::type_index, std::string> described_;  // the headers of the tables of each type
  const S defaults_{};
};

template <Declared S>
std::string describe(const std::string& key, std::string_view header, std::string_view meaning) {
  Section section;
  Describer<S> describer(key, section);
  S::declare(describer);
  std::string text = fmt::format("## `{}`\n\n{}\n\n{}", header, meaning, section.shorthand);
  if (!section.rows.empty()) text += table_of(section.rows);
  text += section.variants;
  for (const std::string& table : section.below) text += table;
  return text;
}

std::string several_files() {
  return R"(## Several files

```toml
include = ["conf.d/*.toml"]
```

stands above the first table of the main file. Sluice reads the files in the order of the list, and the files of a
pattern sorted by name, as if all stood in one file:

- Lists of tables, such as `[[endpoint]]`, are appended.
- Tables with a name of your choice, such as `[database.NAME]` and `[policy.NAME]`, may be spread over the files, but
  each of them stands in one file. So does every other table.
- The same table or key in two files is an error, which names both places.
- A pattern may match no file. A name without `*`, `?` and `[` must be that of a file.
- An included file cannot include others.

)";
}

}  // namespace

std::string reference_example() {
  return R"([server]
listen = ["127.0.0.1:8080"]

[database.main]
url = "${DATABASE_URL:-sqlite:films.db}"

[[endpoint]]
path = "/films"
get = "SELECT id, slug FROM films WHERE id > :after ORDER BY id LIMIT :limit"
[endpoint.params]
after = { type = "int", default = 0 }
limit = { type = "int", default = 100 }

[[endpoint]]
path = "/films/{slug}"
returns = "object"
get = "SELECT * FROM films WHERE slug = :slug"
)";
}

std::string reference() {
  std::string text = R"(# The configuration file

`sluice serve FILE` runs a server as one TOML file describes it. `sluice check FILE` only reads the file and reports its
errors. FILE defaults to `sluice.toml`. `sluice reference` prints this page.

```toml
)" + reference_example() +
                     R"(```

How values are written:

- A *string* may hold `${NAME}` or `${NAME:-default}`, which stand for an environment variable. The default is used if
  the variable is missing or empty. Without a default, a missing variable is an error. `$${` stands for a literal `${`.
  Put quotes around a number or a boolean that comes from the environment: `cores = "${CORES:-0}"`.
- A string may also hold `${file:PATH}`, which stands for the content of a file of at most 64 KiB, without its last line
  break: `url = "postgres://app:${file:/run/secrets/db}@db/films"`. Messages and pages show `***` in place of a secret of
  four bytes or more. A reload reads the file again. Sluice warns of a file that every user may read.
- A *duration* is a string of numbers with units: `"250ms"`, `"10s"`, `"1h30m"`. The units are `d`, `h`, `m`, `s`, `ms`
  and `us`.
- A *size* is a number of bytes, or a string with a unit: `"16KiB"`. The units are `B`, `KiB`, `MiB` and `GiB`.
- A relative path starts at the folder of the file in which it stands.

The heading of each section below is the table that its keys belong to. NAME in a heading stands for a name, such as
that of a database or of a header field.

A key that is not on this page is an error, and so is a value out of its bounds. `sluice` prints the line and column of
each error and exits with code 3.

)";
  Section root;
  std::string key;
  Describer<Options> describer(key, root);
  Options::declare(describer);
  text += "## Above all tables\n\nKeys that stand before the first table of the file.\n\n" + table_of(root.rows) + several_files();
  for (const std::string& table : root.below) text += table;
  text.pop_back();  // the last table's empty line
  return text;
}

}  // namespace sluice::app::config
