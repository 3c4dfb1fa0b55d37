#include "app/commands/cli.h"

#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "app/options.h"
#include "base/version.h"

namespace sluice::app {
namespace {

Command parse(std::vector<const char*> words) {
  words.insert(words.begin(), "sluice");
  return parse_command_line(static_cast<int>(words.size()), words.data());
}

TEST(CommandLine, Commands) {
  EXPECT_EQ(parse({"serve"}).action, Command::Action::serve);
  EXPECT_EQ(parse({"serve"}).file, "sluice.toml");
  EXPECT_EQ(parse({"serve", "films.toml"}).file, "films.toml");
  EXPECT_EQ(parse({"check", "films.toml"}).action, Command::Action::check);
  EXPECT_EQ(parse({"check", "films.toml"}).file, "films.toml");
  EXPECT_EQ(parse({"reload"}).action, Command::Action::reload);
  EXPECT_EQ(parse({"reload"}).admin, std::nullopt);
  EXPECT_EQ(parse({"reload", "--admin", "unix:/run/admin.sock"}).admin, "unix:/run/admin.sock");
  EXPECT_EQ(parse({"reload", "films.toml"}).file, "films.toml");
  EXPECT_EQ(parse({"test", "a.sluicetest", "b.sluicetest"}).action, Command::Action::test);
  EXPECT_EQ(parse({"test", "a.sluicetest", "b.sluicetest"}).suites.files,
            (std::vector<std::string>{"a.sluicetest", "b.sluicetest"}));
  const suite::RunOptions suites = parse({"test", "--database", "sqlite", "a.sluicetest", "--database",
                                          "postgres://localhost", "--filter", "film", "--keep", "--verbose"})
                                       .suites;
  EXPECT_EQ(suites.files, (std::vector<std::string>{"a.sluicetest"}));
  EXPECT_EQ(suites.databases, (std::vector<std::string>{"sqlite", "postgres://localhost"}));
  EXPECT_EQ(suites.filter, "film");
  EXPECT_TRUE(suites.keep && suites.verbose);
  EXPECT_EQ(parse({"store", "gc"}).action, Command::Action::store_gc);
  EXPECT_EQ(parse({"store", "gc"}).file, "sluice.toml");
  EXPECT_FALSE(parse({"store", "gc"}).dry_run);
  EXPECT_EQ(parse({"store", "gc", "--dry-run", "a.toml"}).file, "a.toml");
  EXPECT_TRUE(parse({"store", "gc", "--dry-run", "a.toml"}).dry_run);
  EXPECT_EQ(parse({"store", "gc", "--url", "postgres://a@b/c"}).url, "postgres://a@b/c");
  EXPECT_EQ(parse({"store"}).action, Command::Action::usage_error);
  EXPECT_EQ(parse({"reference"}).action, Command::Action::reference);
  EXPECT_EQ(parse({"hash-password"}).action, Command::Action::hash_password);
}

TEST(CommandLine, Explain) {
  const Command command = parse({"explain", "GET", "/a?b", "-H", "A: b", "-H", "C: d", "--config", "x.toml", "--json"});
  EXPECT_EQ(command.action, Command::Action::explain);
  EXPECT_EQ(command.explain.method + command.explain.url, "GET/a?b");
  EXPECT_EQ(command.explain.headers, (std::vector<std::string>{"A: b", "C: d"}));
  EXPECT_EQ(command.file, "x.toml");
  EXPECT_TRUE(command.explain.json);
  EXPECT_EQ(parse({"explain", "GET", "/"}).file, "sluice.toml");
  for (const char* url : {"", "a", "/a b", "ftp://a/", "/\x7f"}) {
    EXPECT_EQ(parse({"explain", "GET", url}).action, Command::Action::usage_error) << url;
  }
}

TEST(CommandLine, KeysAndTokens) {
  using gateway::jwt::Algorithm;
  EXPECT_EQ(parse({"keys"}).action, Command::Action::keys);
  EXPECT_EQ(parse({"keys"}).keys.algorithm, Algorithm::es256);
  const KeysCommand keys = parse({"keys", "--alg", "PS384", "--kid", "films", "--out", "keys"}).keys;
  EXPECT_EQ(keys.algorithm, Algorithm::ps384);
  EXPECT_EQ(keys.id, "films");
  EXPECT_EQ(keys.folder, "keys");

  EXPECT_EQ(parse({"token", "--key", "a.key.pem"}).action, Command::Action::token);
  EXPECT_EQ(parse({"token", "--key", "a.key.pem"}).token.algorithm, std::nullopt);
  EXPECT_EQ(parse({"token", "--key", "a.key.pem"}).token.expires, std::nullopt);
  const TokenCommand token =
      parse({"token", "--key", "a.key.pem", "--alg", "EdDSA", "--kid", "films", "--expires", "15m", "--issuer", "i",
             "--audience", "a", "--subject", "ada", "--claim", "role=admin", "--claim", "tags=[1,2]"})
          .token;
  EXPECT_EQ(token.key, "a.key.pem");
  EXPECT_EQ(token.algorithm, Algorithm::eddsa);
  EXPECT_EQ(token.id, "films");
  EXPECT_EQ(token.expires, 15min);
  EXPECT_EQ(token.issuer, "i");
  EXPECT_EQ(token.audience, "a");
  EXPECT_EQ(token.subject, "ada");
  EXPECT_EQ(token.claims, (std::vector<std::string>{"role=admin", "tags=[1,2]"}));
}

TEST(CommandLine, HelpAndVersion) {
  EXPECT_EQ(parse({"--version"}).action, Command::Action::print);
  EXPECT_TRUE(parse({"--version"}).text.starts_with(fmt::format("sluice {} (", version)));
  for (std::vector<const char*> words : {std::vector{"--help"}, std::vector{"-h"}, std::vector{"serve", "--help"}}) {
    Command command = parse(words);
    EXPECT_EQ(command.action, Command::Action::print);
    EXPECT_NE(command.text.find("Usage: sluice"), std::string::npos);
  }
  EXPECT_NE(parse({"--help"}).text.find("3 the configuration is wrong"), std::string::npos);
}

TEST(CommandLine, Health) {
  EXPECT_EQ(parse({"health"}).action, Command::Action::health);
  EXPECT_EQ(parse({"health"}).health.url, "http://127.0.0.1:8081/readyz");
  const HealthCommand health = parse({"health", "unix:/run/admin.sock", "--timeout", "2s"}).health;
  EXPECT_EQ(health.url, "unix:/run/admin.sock");
  EXPECT_EQ(health.timeout, 2s);
}

TEST(CommandLine, Query) {
  EXPECT_EQ(parse({"query", "films.db", "SELECT 1"}).action, Command::Action::query);
  EXPECT_EQ(parse({"query", "films.db", "SELECT 1"}).query.format, sql::Format::csv);
  const QueryCommand query = parse({"query", "films.db", "--param", "a=1", "SELECT :a, :b", "--param", "b=x=y",
                                    "--format", "csj", "--output", "rows.csj", "--write"})
                                 .query;
  EXPECT_EQ(query.database, "films.db");
  EXPECT_EQ(query.statement, "SELECT :a, :b");
  EXPECT_EQ(query.parameters, (std::vector<std::string>{"a=1", "b=x=y"}));
  EXPECT_EQ(query.format, sql::Format::csj);
  EXPECT_EQ(query.output, "rows.csj");
  EXPECT_TRUE(query.writes);
}

TEST(CommandLine, TextsAboutItself) {
  const Command bash = parse({"completion", "bash"});
  EXPECT_EQ(bash.action, Command::Action::print);
  EXPECT_NE(bash.text.find("'store gc') words='' options='"), std::string::npos) << bash.text;
  EXPECT_TRUE(parse({"completion", "zsh"}).text.starts_with("#compdef sluice\n"));
  EXPECT_NE(parse({"completion", "fish"}).text.find(" -l dry-run "), std::string::npos);
  EXPECT_TRUE(parse({"man"}).text.starts_with(".TH SLUICE 1 "));
}

TEST(CommandLine, Refused) {
  const std::string more = "Run with --help for more information.\n";
  struct {
    std::vector<const char*> words;
    std::string text;
  } cases[] = {
      {{}, "sluice: A subcommand is required\n"},
      {{"serv"}, "sluice: there is no command \"serv\"; did you mean \"serve\"?\n"},
      {{"films.toml"}, "sluice: there is no command \"films.toml\"; did you mean \"sluice serve films.toml\"?\n"},
      {{"films.sluicetest"},
       "sluice: there is no command \"films.sluicetest\"; did you mean \"sluice test films.sluicetest\"?\n"},
      {{"test"}, "sluice: FILE is required\n"},
      {{"completion", "tcsh"}, "sluice: SHELL: tcsh not in {bash,zsh,fish}\n"},
      {{"health", "--timeout", "soon"}, "sluice: --timeout: \"soon\" must be a duration: 500ms, 5s\n"},
      {{"frobnicate"}, "sluice: there is no command \"frobnicate\"\n"},
      {{"serve", "a", "b"}, "sluice: The following argument was not expected: b\n"},
      {{"check", "--fast"}, "sluice: The following argument was not expected: --fast\n"},
      {{"--fast"}, "sluice: A subcommand is required\n"},
      {{"keys", "--kid", "../a"},
       "sluice: --kid: \"../a\" names files: it must be letters, digits, \".\", \"_\" and \"-\", and not begin with "
       "\".\" or \"-\"\n"},
      {{"query", "films.db"}, "sluice: STATEMENT is required\n"},
      {{"query", "films.db", "SELECT 1", "postgres://ada:secret@h/films"},
       "sluice: The following argument was not expected: postgres://***@h/films\n"},
      {{"token"}, "sluice: --key is required\n"},
      {{"token", "--key", "a", "--alg", "none"},
       "sluice: --alg: \"none\" must be one of HS256, HS384, HS512, RS256, RS384, RS512, PS256, PS384, PS512, ES256, "
       "ES384, ES512, EdDSA\n"},
      {{"token", "--key", "a", "--expires", "soon"},
       "sluice: --expires: \"soon\" must be a duration of at least 1s: 90s, 15m, 24h\n"},
      {{"token", "--key", "a", "--expires", "0"},
       "sluice: --expires: \"0\" must be a duration of at least 1s: 90s, 15m, 24h\n"},
      {{"token", "--key", "a", "--claim", "role"},
       "sluice: --claim: \"role\" must be NAME=VALUE: role=admin, level=3\n"},
  };
  for (const auto& [words, text] : cases) {
    Command command = parse(words);
    EXPECT_EQ(command.action, Command::Action::usage_error);
    EXPECT_EQ(command.text, text + more);
  }
}

}  // namespace
}  // namespace sluice::app
