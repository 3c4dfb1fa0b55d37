#include "app/commands/describe.h"

#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/version.h"

namespace sluice::app {
namespace {

// A command, or a command of a command: "store gc".
struct Named {
  std::string name;  // as it is typed, without "sluice"; empty for the program itself
  const CLI::App* app;
};

void add_commands(const CLI::App& app, const std::string& prefix, std::vector<Named>& list) {
  for (const CLI::App* command : app.get_subcommands({})) {
    list.push_back({prefix + command->get_name(), command});
    add_commands(*command, list.back().name + ' ', list);
  }
}

std::vector<Named> commands_of(const CLI::App& app) {
  std::vector<Named> list;
  add_commands(app, "", list);
  return list;
}

std::vector<const CLI::Option*> options_of(const CLI::App& app) {
  return app.get_options([](const CLI::Option* option) { return option->nonpositional(); });
}

std::vector<const CLI::Option*> positionals_of(const CLI::App& app) {
  return app.get_options([](const CLI::Option* option) { return option->get_positional(); });
}

bool takes_value(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

// -H, --header
std::vector<std::string> spellings_of(const CLI::Option& option) {
  std::vector<std::string> all;
  for (const std::string& name : option.get_snames()) all.push_back('-' + name);
  for (const std::string& name : option.get_lnames()) all.push_back("--" + name);
  return all;
}

// The name of an option's value: FILE.
std::string value_of(const CLI::Option& option) {
  const std::string& text = option.get_option_text();
  const std::size_t end = text.find("  ");  // a default may follow
  return text.empty() ? "VALUE" : text.substr(0, end);
}

// In single quotes, for any of the three shells.
std::string in_quotes(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      out += c;
    }
  }
  return out + '\'';
}

std::string for_bash(const CLI::App& app) {
  std::string cases;
  const auto add = [&](const Named& command) {
    std::string words, options;
    for (const CLI::Option* option : options_of(*command.app)) {
      for (const std::string& spelling : spellings_of(*option)) options += spelling + ' ';
    }
    for (const CLI::App* next : command.app->get_subcommands({})) words += next->get_name() + ' ';
    cases +=
        fmt::format("    {}) words={} options={} ;;\n", in_quotes(command.name), in_quotes(words), in_quotes(options));
  };
  add({"", &app});
  std::string names;
  for (const Named& command : commands_of(app)) {
    add(command);
    names += fmt::format("{}'{}'", names.empty() ? "" : "|", command.name);
  }
  return fmt::format(
      R"(# sluice completion bash
_sluice() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} command= words= options= i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "${{command:+$command }}${{COMP_WORDS[i]}}" in
    {}) command="${{command:+$command }}${{COMP_WORDS[i]}}" ;;
    esac
  done
  case "$command" in
{}  esac
  if [[ $word == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$options" -- "$word")
  elif [[ -n $words ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
  else
    mapfile -t COMPREPLY < <(compgen -f -- "$word")
  fi
}}
complete -o filenames -F _sluice sluice
)",
      names, cases);
}

// In _arguments, these characters of a description end it.
std::string for_arguments(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string zsh_arguments(const CLI::App& command) {
  std::string out = "_arguments";
  for (const CLI::Option* option : options_of(command)) {
    for (const std::string& spelling : spellings_of(*option)) {
      std::string text = fmt::format("*{}[{}]", spelling, for_arguments(option->get_description()));
      if (takes_value(*option)) text += fmt::format(":{}:_files", for_arguments(value_of(*option)));
      out += " \\\n      " + in_quotes(text);
    }
  }
  return out + " \\\n      '*:file:_files'\n";
}

std::string zsh_function(const std::string& name, const CLI::App& command) {
  const auto inner = command.get_subcommands({});
  if (inner.empty()) return fmt::format("{}() {{\n  {}}}\n", name, zsh_arguments(command));
  std::string functions, list, cases;
  for (const CLI::App* next : inner) {
    const std::string function = name + '_' + next->get_name();
    functions += zsh_function(function, *next);
    list += fmt::format("    {}\n", in_quotes(for_arguments(next->get_name()) + ':' + next->get_description()));
    cases += fmt::format("    {}) {} ;;\n", next->get_name(), function);
  }
  return functions + fmt::format(R"({}() {{
  local context state state_descr line
  typeset -A opt_args
  local -a commands=(
{}  )
  _arguments -C '1:command:->command' '*::argument:->argument'
  case $state in
  command) _describe command commands ;;
  argument)
    case $words[1] in
{}    esac ;;
  esac
}}
)",
                                 name, list, cases);
}

std::string for_fish(const CLI::App& app) {
  std::string out = "# sluice completion fish\n";
  const auto add_commands_of = [&](const CLI::App& parent, const std::string& condition) {
    for (const CLI::App* command : parent.get_subcommands({})) {
      out += fmt::format("complete -c sluice -f -n {} -a {} -d {}\n", in_quotes(condition), command->get_name(),
                         in_quotes(command->get_description()));
    }
  };
  add_commands_of(app, "__fish_use_subcommand");
  for (const Named& command : commands_of(app)) {
    const std::size_t space = command.name.find(' ');
    std::string condition = "__fish_seen_subcommand_from " + command.name.substr(0, space);
    if (space != command.name.npos) condition += "; and __fish_seen_subcommand_from " + command.name.substr(space + 1);
    add_commands_of(*command.app, condition);
    for (const CLI::Option* option : options_of(*command.app)) {
      out += fmt::format("complete -c sluice -n {}", in_quotes(condition));
      for (const std::string& name : option->get_snames()) out += " -s " + name;
      for (const std::string& name : option->get_lnames()) out += " -l " + name;
      out += fmt::format("{} -d {}\n", takes_value(*option) ? " -r" : "", in_quotes(option->get_description()));
    }
  }
  return out;
}

// Text of a manual page. A line that begins with a dot or an apostrophe would be a request.
std::string roff(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (out.empty() && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
  }
  return out;
}

std::string manual_of(const Named& command) {
  std::string out = fmt::format(".SS \"sluice {}", roff(command.name));
  if (!options_of(*command.app).empty()) out += " [options]";
  for (const CLI::Option* option : positionals_of(*command.app)) {
    const std::string name = roff(option->get_name());
    out += option->get_required() ? " " + name : " [" + name + "]";
  }
  out += "\"\n" + roff(command.app->get_description()) + ".\n";
  for (const CLI::Option* option : positionals_of(*command.app)) {
    out += fmt::format(".TP\n.I {}\n{}\n", roff(option->get_name()), roff(option->get_description()));
  }
  for (const CLI::Option* option : options_of(*command.app)) {
    std::string names;
    for (const std::string& spelling : spellings_of(*option)) {
      names += fmt::format("{}\\fB{}\\fR", names.empty() ? "" : ", ", roff(spelling));
    }
    if (takes_value(*option)) names += fmt::format(" \\fI{}\\fR", roff(value_of(*option)));
    out += fmt::format(".TP\n{}\n{}\n", names, roff(option->get_description()));
  }
  if (const std::string footer = command.app->get_footer(); !footer.empty()) out += ".PP\n" + roff(footer) + "\n";
  return out;
}

}  // namespace

std::string completion(const CLI::App& app, std::string_view shell) {
  if (shell == "bash") return for_bash(app);
  if (shell == "fish") return for_fish(app);
  return "#compdef sluice\n" + zsh_function("_sluice", app) + "compdef _sluice sluice\n";
}

std::string manual(const CLI::App& app) {
  std::string out = fmt::format(
      ".TH SLUICE 1 \"\" \"sluice {}\" \"User Commands\"\n.SH NAME\nsluice \\- {}\n.SH SYNOPSIS\n.B sluice\n"
      ".I COMMAND\n[options]\n.SH COMMANDS\n",
      version, "databases, files and services behind one HTTP endpoint");
  for (const Named& command : commands_of(app)) {
    if (command.app->get_subcommands({}).empty()) out += manual_of(command);
  }
  return out + fmt::format(
                   ".SH \"EXIT STATUS\"\n{}\n.SH FILES\n.TP\n.I /etc/sluice/sluice.toml\n"
                   "The configuration of the service. Its keys are explained by \\fBsluice reference\\fR.\n",
                   roff(app.get_footer()));
}

}  // namespace sluice::app
