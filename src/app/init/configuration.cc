#include "app/init/configuration.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "api/query/query.h"
#include "app/config/text.h"

namespace sluice::app::init {
namespace {

constexpr std::size_t most_order_columns = 8;  // of the order of rows without a key

bool is_word(std::string_view text) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  return !text.empty() && is_letter(text.front()) &&
         std::ranges::all_of(text, [&](char c) { return is_letter(c) || (c >= '0' && c <= '9'); });
}

// On one line, without control characters.
std::string plain(std::string_view text) {
  std::string line;
  for (const char c : text) line.push_back(static_cast<unsigned char>(c) < 0x20 || c == 0x7F ? ' ' : c);
  return line;
}

// A string of TOML. SQL with quoted names reads better between single quotes.
std::string toml(std::string_view text) {
  const bool is_literal = text.contains('"') && !text.contains('\'');
  return is_literal ? fmt::format("'{}'", text) : config::quote(plain(text));
}

std::string toml_key(std::string_view name) { return is_word(name) ? std::string(name) : config::quote(plain(name)); }

// Whether the name can stand in the file and in a path.
bool is_possible(std::string_view name) {
  return plain(name) == name && !name.empty() && name != "." && name != ".." &&
         name.find_first_of("/\\*{}?#%") == name.npos;
}

template <class Is>
std::vector<std::string> names_of(const Table& table, Is is) {
  std::vector<std::string> names;
  for (const Column& column : table.columns) {
    if (is(column)) names.push_back(column.name);
  }
  return names;
}

std::string list_of(const std::vector<std::string>& names) {
  std::vector<std::string> quoted;
  for (const std::string& name : names) quoted.push_back(config::quote(name));
  return fmt::format("[{}]", fmt::join(quoted, ", "));
}

std::string columns_of(const Table& table) {
  std::vector<std::string_view> columns;
  for (const Column& column : table.columns) columns.push_back(column.sql);
  return fmt::format("{}", fmt::join(columns, ", "));
}

// The parameters of a path, and the condition of a statement that they meet.
class Place {
 public:
  void add(const Column& column) {
    const std::string name = is_word(column.name) ? column.name : fmt::format("key{}", ++unnamed_);
    const bool is_number = column.is_integer;
    path_ += fmt::format("/{{{}{}}}", name, is_number ? ":int" : "");
    location_ += fmt::format("/{{{}}}", name);
    where_ += fmt::format("{}{} = :{}", where_.empty() ? " WHERE " : " AND ", column.sql, name);
    names_.emplace_back(column.name, name);
  }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const std::string& location() const { return location_; }
  [[nodiscard]] const std::string& where() const { return where_; }
  // The parameters have the names of their columns.
  [[nodiscard]] bool is_plain() const { return unnamed_ == 0; }
  // The parameter of a column; empty if it has none.
  [[nodiscard]] std::string_view of(std::string_view column) const {
    const auto found = std::ranges::find(names_, column, &std::pair<std::string, std::string>::first);
    return found == names_.end() ? std::string_view() : std::string_view(found->second);
  }

 private:
  std::string path_;
  std::string location_;
  std::string where_;
  std::vector<std::pair<std::string, std::string>> names_;
  int unnamed_ = 0;
};

class Writer {
 public:
  Writer(const Schema& schema, const ConfigurationOptions& options) : schema_(schema), options_(options) {}

  Configuration write() {
    add_head();
    for (const Table& table : schema_.tables) {
      if (!is_possible(table.name) || std::ranges::any_of(table.columns, [](const Column& column) {
            return plain(column.name) != column.name || column.name.empty();
          })) {
        made_.warnings.push_back(
            fmt::format("{} is left out: its name, or that of a column, cannot stand in a path or "
                        "in the file",
                        plain(table.name)));
        continue;
      }
      add_table(table);
    }
    return std::move(made_);
  }

 private:
  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    made_.text += fmt::format(format, std::forward<Args>(args)...) + "\n";
  }

  void add_head() {
    line("[server]");
    line("listen = [{}]", config::quote(options_.listen));
    if (!options_.hosts.empty()) line("hosts = {}", list_of(options_.hosts));
    line("\n[admin]\nlisten = {}", config::quote(options_.admin));
    line("\n[database.main]\nurl = {}", config::quote(options_.url));
    line("\n# The description for clients, and the page that shows it.");
    line("[openapi]\ntitle = {}\nexplorer = \"/\"", config::quote(plain(options_.title)));
    line(
        "\n# To let in only those who have a token, make a key by `sluice keys`, put the policy that it prints here, "
        "and\n"
        "# name it for all endpoints. `public = true` leaves an endpoint open.\n"
        "#\n"
        "# [policy.tokens]\n"
        "# type = \"jwt\"\n"
        "# jwks = \"tokens.jwks.json\"\n"
        "#\n"
        "# [defaults]\n"
        "# use = [\"tokens\"]");
  }

  void add_comments(const Table& table) {
    if (!table.comment.empty()) line("# {}", plain(table.comment));
    for (const Column& column : table.columns) {
      if (column.comment.empty() && column.labels.empty()) continue;
      const bool has_both = !column.comment.empty() && !column.labels.empty();
      line("# {}: {}{}{}", column.name, plain(column.comment), has_both ? "; " : "", plain(column.labels));
    }
  }

  void add_table(const Table& table) {
    const auto key = table.key();
    Place object;
    for (const Column* const column : key) object.add(*column);
    made_.text += '\n';
    add_comments(table);
    line("[[endpoint]]");
    made_.paths.push_back("/" + table.name);
    line("path = {}", config::quote("/" + table.name));
    if (!table.comment.empty()) line("description = {}", config::quote(plain(table.comment)));
    line("get = {}", toml("SELECT " + columns_of(table) + " FROM " + table.sql));
    add_list(table, {});
    const bool is_written = options_.writes && table.is_writable;
    if (is_written) add_post(table, object);
    if (!key.empty()) {
      line("\n[[endpoint]]");
      line("path = {}", config::quote("/" + table.name + object.path()));
      line("returns = \"object\"");
      line("get = {}", toml("SELECT " + columns_of(table) + " FROM " + table.sql + object.where()));
      if (is_written) add_changes(table, object);
    }
    for (const Reference& reference : schema_.references) {
      if (reference.parent == table.name && is_possible(reference.child)) add_children(table, reference);
    }
  }

  void add_list(const Table& table, const std::vector<std::string>& fixed) {
    const auto is_fixed = [&](const Column& column) { return std::ranges::find(fixed, column.name) != fixed.end(); };
    const auto sorts = names_of(table, [](const Column& column) { return column.compares; });
    const auto filters = names_of(table, [&](const Column& column) {
      return column.compares && !is_fixed(column) && !api::query::is_reserved(column.name);
    });
    const auto texts = names_of(table, [](const Column& column) { return column.is_text; });
    std::vector<std::string> order;
    for (const Column* const column : table.key()) order.push_back(column->name);
    if (order.empty())
      order.assign(sorts.begin(), sorts.begin() + std::min<std::ptrdiff_t>(std::ssize(sorts), most_order_columns));
    if (order.empty() || std::ranges::any_of(order, [](const auto& name) { return name.contains(','); })) return;
    line("[endpoint.list]");
    if (!filters.empty()) line("filter = {}", list_of(filters));
    if (!texts.empty()) line("search = {}", list_of(texts));
    if (!sorts.empty()) line("sort = {}", list_of(sorts));
    line("order = {}", config::quote(fmt::format("{}", fmt::join(order, ","))));
    line("count = true");
  }

  // The columns that a body may have. One with a dot in its name would be a member within an object.
  void add_body(const Table& table, const Place& object, bool has_keys) {
    for (const Column& column : table.columns) {
      if (has_keys && column.key_place != 0) {
        line("columns.{} = {{ key = true, from = {} }}", toml_key(column.name),
             config::quote(fmt::format("path.{}", object.of(column.name))));
      } else if (!column.is_generated && !column.name.contains('.')) {
        line("columns.{} = {{}}", toml_key(column.name));
      }
    }
  }

  void add_post(const Table& table, const Place& object) {
    line("[endpoint.post]");
    line("table = {}", config::quote(table.name));
    add_body(table, object, false);
    line("returning = {}", toml(columns_of(table)));
    if (!object.path().empty() && object.is_plain()) {
      line("location = {}", config::quote("/" + table.name + object.location()));
    }
  }

  void add_changes(const Table& table, const Place& object) {
    if (!table.key().front()->is_hidden) {
      line("[endpoint.patch]");
      line("table = {}", config::quote(table.name));
      add_body(table, object, true);
      line("returning = {}", toml(columns_of(table)));
    }
    line("[endpoint.delete]");
    line("sql = {}", toml("DELETE FROM " + table.sql + object.where()));
  }

  void add_children(const Table& parent, const Reference& reference) {
    const Table& child = *schema_.find(reference.child);
    Place place;
    for (const std::string& name : reference.columns) {
      Column column = *std::ranges::find(child.columns, name, &Column::name);
      place.add(column);
    }
    // Two references to one table differ by their columns.
    const auto is_rival = [&](const Reference& other) {
      return other.parent == reference.parent && other.child == reference.child && other.columns != reference.columns;
    };
    std::string name = reference.child;
    if (std::ranges::any_of(schema_.references, is_rival)) {
      name += fmt::format("_by_{}", fmt::join(reference.columns, "_"));
    }
    if (!is_possible(name)) return;
    line("\n[[endpoint]]");
    line("path = {}", config::quote("/" + parent.name + place.path() + "/" + name));
    line("get = {}", toml("SELECT " + columns_of(child) + " FROM " + child.sql + place.where()));
    add_list(child, reference.columns);
  }

  const Schema& schema_;
  const ConfigurationOptions& options_;
  Configuration made_;
};

}  // namespace

Configuration make_configuration(const Schema& schema, const ConfigurationOptions& options) {
  return Writer(schema, options).write();
}

}  // namespace sluice::app::init
