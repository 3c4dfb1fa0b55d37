#include "app/config/load.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <unistd.h>

namespace sluice::app::config {
namespace {

std::optional<std::string> environment(std::string_view name) {
  if (name == "HOST") return "127.0.0.1:9000";
  if (name == "CORES") return "4";
  if (name == "EMPTY") return "";
  if (name == "SECRET") return "hunter2";
  return {};
}

// A file that can be served, so that a test only adds the keys that it checks.
const std::string serves = "[[endpoint]]\npath = \"/\"\nget = \"SELECT 1\"\n[database.main]\nurl = \"sqlite:a.db\"\n";

Options options_of(const std::string& text) {
  auto config = parse(Source("a.toml", text), environment);
  EXPECT_TRUE(config) << config.error().text();
  return config ? config->options : Options{};
}

std::string errors_of(const std::string& text) {
  auto config = parse(Source("a.toml", text), environment);
  return config ? "" : config.error().text();
}

// The messages without their lines of the file, for tests that are not about rendering.
std::string messages_of(const std::string& text) {
  auto config = parse(Source("a.toml", text), environment);
  std::string all;
  if (config) return all;
  for (const Diagnostic& one : config.error().list) {
    all += std::to_string(one.position.line) + ":" + std::to_string(one.position.column) + " " + one.message;
    all += one.hint.empty() ? "\n" : " | " + one.hint + "\n";
  }
  return all;
}

TEST(Load, ASchemaIsATableATextOrAFile) {
  const Options options = options_of(R"toml(
[database.main]
url = "sqlite:a.db"
[[endpoint]]
path = "/a"
[endpoint.post]
sql = "INSERT INTO a VALUES (:a)"
schema = { type = "object", properties.a = { minimum = 1_000, maximum = 1.5, enum = ["\"", true] } }
[endpoint.put]
sql = "UPDATE a SET a = :a"
schema = ' {"type":"object"}'
[endpoint.patch]
sql = "UPDATE a SET a = :a"
schema = "a.json"
)toml");
  ASSERT_EQ(options.endpoints.size(), 1U);
  const auto& endpoint = options.endpoints[0];
  EXPECT_EQ(endpoint.post->schema->value.json,
            R"({"type":"object","properties":{"a":{"minimum":1000,"maximum":1.5,"enum":["\"",true]}}})");
  EXPECT_EQ(endpoint.put->schema->value.json, R"( {"type":"object"})");
  EXPECT_EQ(endpoint.put->schema->value.file, "");
  EXPECT_EQ(endpoint.patch->schema->value.file, "a.json");
}

TEST(Load, EveryKey) {
  Options options = options_of(R"(
[server]
listen = ["127.0.0.1:1", "unix:/run/a.sock"]
cores = 2
header_limit = "32KiB"
target_limit = "9KiB"
field_limit = 200
body_limit = 1000
body_memory = "2GiB"
header_timeout = "1s"
body_timeout = "2s"
idle_timeout = "3s"
write_timeout = "4s"
slowest_client = "1KiB"
connections = 5
grace = "0"
io = "uring"
access_log = "stdout"
server_header = ""
[admin]
listen = ""
[database.main]
url = "postgres://me@host/db"
pool = 3
wait = "100ms"
statement_timeout = "1m"
start_timeout = "7s"
prepared = true
pipeline = 2
anonymous_role = "guest"
[database.other]
url = "sqlite:a.db"
[[endpoint]]
path = "/films/{id:int}"
database = "main"
returns = "object"
get = "SELECT 1"
timeout = "5s"
cache_control = "no-store"
params.id = "int"
params.b = { type = "real", default = 1.5 }
params.a = { required = true }
params.word = { hash = "argon2id", min_length = 12, common = true }
changes = { notify = "films", keep = 16, keep_bytes = "1MiB", clients = 7, heartbeat = "1s", retry = "3s" }
[[files]]
path = "/static//"
root = "public"
index = []
cache_control = "max-age=60"
[store.avatars]
path = "avatars"
limit = "5MiB"
types = ["image/png", "text/*"]
uploads = 7
cache_files = 8
cache_memory = "9KiB"
used = "SELECT avatar FROM users"
database = "other"
grace = "2h"
[[endpoint]]
path = "/users/{id}/avatar"
database = "other"
returns = "file"
get = "SELECT avatar FROM users"
[endpoint.put]
sql = "UPDATE users SET avatar = :avatar"
[endpoint.params]
avatar = { from = "upload.picture", required = true }
)");
  EXPECT_EQ(options.server.listen.size(), 2u);
  EXPECT_EQ(options.server.listen[1].value, "unix:/run/a.sock");
  EXPECT_EQ(options.server.cores, 2u);
  EXPECT_EQ(options.server.io.value, IoChoice::uring);
  EXPECT_EQ(options.server.header_limit, 32_KiB);
  EXPECT_EQ(options.server.target_limit.value, 9_KiB);
  EXPECT_EQ(options.server.field_limit, 200u);
  EXPECT_EQ(options.server.body_limit, 1000_B);
  EXPECT_EQ(options.server.body_memory, 2_GiB);
  EXPECT_EQ(options.server.header_timeout, 1s);
  EXPECT_EQ(options.server.body_timeout, 2s);
  EXPECT_EQ(options.server.idle_timeout, 3s);
  EXPECT_EQ(options.server.write_timeout, 4s);
  EXPECT_EQ(options.server.slowest_client, 1_KiB);
  EXPECT_EQ(options.server.connections.value, 5u);
  EXPECT_EQ(options.server.grace, 0s);
  EXPECT_EQ(options.server.access_log.value, "stdout");
  EXPECT_EQ(options.server.server_header.value, "");
  EXPECT_EQ(options.admin.listen.value, "");

  ASSERT_EQ(options.databases.size(), 2u);
  EXPECT_EQ(options.databases[0].name.value, "main");
  EXPECT_EQ(options.databases[0].name.position, (Position{22, 11}));
  const sql::DatabaseOptions& database = options.databases[0].value;
  EXPECT_EQ(database.url.value, "postgres://me@host/db");
  EXPECT_EQ(database.url.position, (Position{23, 7}));
  EXPECT_EQ(database.pool, 3u);
  EXPECT_EQ(database.wait, 100ms);
  EXPECT_EQ(database.statement_timeout, 1min);
  EXPECT_TRUE(database.prepared.value);
  EXPECT_EQ(database.start_timeout.value, 7s);
  EXPECT_EQ(database.pipeline.value, 2u);
  EXPECT_EQ(database.batch.value, 1u);
  EXPECT_EQ(database.anonymous_role.value, "guest");
  EXPECT_FALSE(database.is_sqlite());
  EXPECT_TRUE(options.databases[1].value.is_sqlite());

  ASSERT_EQ(options.endpoints.size(), 2u);
  EXPECT_EQ(options.endpoints[1].returns, api::Returns::file);
  EXPECT_EQ(options.endpoints[1].store.value, "avatars") << "the only one";
  EXPECT_EQ(options.endpoints[1].params[0].value.store.value, "avatars");
  ASSERT_EQ(options.stores.size(), 1u);
  const files::StoreOptions& store = options.stores[0].value;
  EXPECT_EQ(store.path.value, "avatars");
  EXPECT_EQ(store.limit.value, 5_MiB);
  ASSERT_EQ(store.types.size(), 2u);
  EXPECT_EQ(store.types[1].value, "text/*");
  EXPECT_EQ(store.uploads, 7u);
  EXPECT_EQ(store.cache_files, 8u);
  EXPECT_EQ(store.cache_memory, 9_KiB);
  EXPECT_EQ(store.used.value, "SELECT avatar FROM users");
  EXPECT_EQ(store.database.value, "other");
  EXPECT_EQ(store.grace, 2h);
  const api::EndpointOptions& endpoint = options.endpoints[0];
  EXPECT_EQ(endpoint.position, (Position{33, 1}));
  EXPECT_EQ(endpoint.path.value, "/films/{id:int}");
  EXPECT_EQ(endpoint.database.value, "main");
  EXPECT_EQ(endpoint.returns, api::Returns::object);
  EXPECT_EQ(endpoint.get.position, (Position{37, 7}));
  EXPECT_EQ(endpoint.timeout, 5s);
  EXPECT_EQ(endpoint.cache_control->value, "no-store");
  ASSERT_EQ(endpoint.params.size(), 4u);  // in the order of the file
  EXPECT_EQ(endpoint.params[0].name.value, "id");
  EXPECT_EQ(endpoint.params[0].value.type->value, sql::ParameterType::integer);
  EXPECT_EQ(endpoint.params[1].name.value, "b");
  EXPECT_EQ(endpoint.params[1].value.type->value, sql::ParameterType::real);
  EXPECT_EQ(endpoint.params[1].value.default_value->value.text, "1.5");
  EXPECT_EQ(endpoint.params[2].name.value, "a");
  EXPECT_FALSE(endpoint.params[2].value.type);
  EXPECT_TRUE(endpoint.params[2].value.required.value);
  EXPECT_EQ(endpoint.params[3].value.hash->value, api::PasswordHash::argon2id);
  EXPECT_EQ(endpoint.params[3].value.min_length->value, 12u);
  EXPECT_TRUE(endpoint.params[3].value.common->value);

  ASSERT_TRUE(endpoint.changes);
  EXPECT_EQ(endpoint.changes->notify.value, "films");
  EXPECT_TRUE(endpoint.changes->tables.empty());
  EXPECT_EQ(endpoint.changes->keep, 16u);
  EXPECT_EQ(endpoint.changes->keep_bytes, 1_MiB);
  EXPECT_EQ(endpoint.changes->clients, 7u);
  EXPECT_EQ(endpoint.changes->heartbeat, 1s);
  EXPECT_EQ(endpoint.changes->retry, 3s);

  ASSERT_EQ(options.files.size(), 1u);
  EXPECT_EQ(options.files[0].path.value, "/static");
  EXPECT_EQ(options.files[0].root.value, "public");
  EXPECT_TRUE(options.files[0].index.empty());
  EXPECT_EQ(options.files[0].cache_control->value, "max-age=60");
}

TEST(Load, Defaults) {
  Options options = options_of(serves);
  EXPECT_EQ(options.server.listen[0].value, "127.0.0.1:8080");
  EXPECT_EQ(options.server.header_limit, 16_KiB);
  EXPECT_EQ(options.admin.listen.value, "127.0.0.1:8081");
  EXPECT_EQ(options.endpoints[0].database.value, "main");  // the only one
  EXPECT_EQ(options.endpoints[0].returns, api::Returns::rows);
  EXPECT_FALSE(options.endpoints[0].timeout);
  EXPECT_EQ(options.databases[0].value.pool, 8u);
}

TEST(Errors, UnknownKeyWithWhatWasMeant) {
  EXPECT_EQ(errors_of("[server]\ncores_ = 4\n" + serves),
            "a.toml:2:1: error: unknown key \"cores_\" in [server]\n"
            "  2 | cores_ = 4\n"
            "    | ^\n"
            "    = did you mean \"cores\"?\n");
  EXPECT_EQ(errors_of("[sever]\n" + serves),
            "a.toml:1:2: error: unknown key \"sever\"\n"
            "  1 | [sever]\n"
            "    |  ^\n"
            "    = did you mean \"server\"?\n");
  EXPECT_EQ(errors_of(serves + "[admin]\nzzz = 1\n"),
            "a.toml:7:1: error: unknown key \"zzz\" in [admin]\n"
            "  7 | zzz = 1\n"
            "    | ^\n"
            "    = known here: listen, token\n");
  EXPECT_EQ(messages_of("[[endpoint]]\npath = \"/a\"\nget = \"SELECT 1\"\nparams.x.typ = \"int\"\n" + serves),
            "4:10 unknown key \"typ\" in [endpoint.params.x] | did you mean \"type\"?\n");
  EXPECT_EQ(messages_of(serves + "pol = 1\n"), "6:1 unknown key \"pol\" in [database.main] | did you mean \"pool\"?\n");
}

TEST(Errors, Syntax) {
  EXPECT_EQ(errors_of("[server]\ncores = \n"),
            "a.toml:2:9: error: expected value, saw '\\n', while parsing key-value pair\n");
  EXPECT_EQ(messages_of("[server]\ncores = 1\ncores = 2\n"),
            "3:9 cannot redefine existing integer 'cores', while parsing key-value pair\n");
  EXPECT_EQ(messages_of("[server]\n[server]\n"),
            "2:1 cannot redefine existing table 'server', while parsing table header\n");
  EXPECT_EQ(
      messages_of("x = \"abc\n"),
      "1:9 unescaped control characters other than TAB (U+0009) are explicitly prohibited, while parsing string | "
      "is the closing quote missing?\n");
  EXPECT_EQ(messages_of(std::string("x = 1\0", 6)),
            "1:6 expected digit, saw '\\u0000', while parsing decimal integer\n");
  EXPECT_EQ(errors_of("x = \"\xff\"\n"), "a.toml:1:5: error: encountered invalid utf-8 sequence\n");
  EXPECT_TRUE(messages_of("x = " + std::string(100'000, '[')).starts_with("1:261 exceeded maximum nested value depth"));
}

TEST(Errors, DottedKeysCannotExhaustTheStack) {
  std::string deep = "a";
  for (int i = 0; i < 500'000; ++i) deep += ".a";
  for (const std::string& text : {deep + " = 1", "[" + deep + "]", "x = {" + deep + " = 1}"}) {
    EXPECT_EQ(messages_of("\n" + text), "2:1 too many dotted keys\n");
  }
  EXPECT_EQ(messages_of("# " + std::string(100'000, '.') + "\n" + serves), "");  // dots in comments are allowed
}

TEST(Errors, WrongTypes) {
  struct {
    std::string text;
    std::string message;
  } cases[] = {
      {"server = 1", "1:10 server must be a table, not an integer\n"},
      {"[[server]]", "1:1 server must be a table, not a list | write [server], once\n"},
      {"[server]\ncores = \"4\"", "2:9 server.cores must be an integer, not a string\n"},
      {"[server]\ncores = 4.0", "2:9 server.cores must be an integer, not a float\n"},
      {"[server]\ncores = true", "2:9 server.cores must be an integer, not a boolean\n"},
      {"[server]\ncores = 1979-05-27", "2:9 server.cores must be an integer, not a date or time\n"},
      {"[server]\nlisten = \"*:1\"", "2:10 server.listen must be a list, not a string | write [\"...\"]\n"},
      {"[server]\nlisten = [1]", "2:11 server.listen must be a string, not an integer\n"},
      {"[server]\nheader_timeout = 10",
       "2:18 server.header_timeout must be a duration, as \"10s\" is, not an integer | write \"10s\" or \"10ms\"\n"},
      {"[server]\nheader_timeout = true",
       "2:18 server.header_timeout must be a duration, as \"10s\" is, not a boolean\n"},
      {"[server]\nbody_limit = 1.5", "2:14 server.body_limit must be a size, as \"16KiB\" is, not a float\n"},
      {"[server]\naccess_log = true", "2:14 server.access_log must be a string, not a boolean\n"},
      {"[admin]\nlisten = [\"*:1\"]", "2:10 admin.listen must be a string, not a list\n"},
      {"[database.b]\nurl = \"postgres://a\"\nprepared = \"no\"",
       "3:12 database.b.prepared must be true or false, not a string\n"},
      {"[endpoint]\npath = \"/\"", "1:1 endpoint must be a list of tables, not a table | write [[endpoint]]\n"},
      {"endpoint = [1]", "1:13 endpoint must be a table, not an integer\n"},
      {"[[database]]", "1:1 database must be a table of names, not a list | write [database.NAME]\n"},
      {"[database]\nmain = \"sqlite:a.db\"", "2:8 database.main must be a table, not a string\n"},
      {"[[endpoint]]\npath = \"/a\"\nget = 1\n", "3:7 endpoint.get must be a string, not an integer\n"},
  };
  for (const auto& [text, message] : cases) {
    std::string rest = text.starts_with("[database") || text.starts_with("[[database") ||
                               text.starts_with("[endpoint]") || text.starts_with("endpoint")
                           ? ""
                           : "\n" + serves;
    std::string found = messages_of(text + rest);
    EXPECT_TRUE(found.starts_with(message)) << text << "\n" << found;
  }
}

TEST(Errors, Bounds) {
  auto server = [](const std::string& line) { return messages_of("[server]\n" + line + "\n" + serves); };
  EXPECT_EQ(server("cores = 1025"), "2:9 server.cores must be at most 1024\n");
  EXPECT_EQ(server("cores = -1"), "2:9 server.cores must be at least 0\n");
  EXPECT_EQ(server("cores = 1024"), "");
  EXPECT_EQ(server("connections = 0"), "2:15 server.connections must be at least 1\n");
  EXPECT_EQ(server("connections = 9223372036854775807"), "2:15 server.connections must be at most 10000000\n");
  EXPECT_EQ(server("header_limit = \"1B\""), "2:16 server.header_limit must be at least 1KiB\n");
  EXPECT_EQ(server("header_limit = \"4KiB\"\ntarget_limit = \"4097B\""),
            "3:16 a target of that length does not fit into header_limit | header_limit is 4KiB\n");
  EXPECT_EQ(server("target_limit = \"63B\""), "2:16 server.target_limit must be at least 64B\n");
  EXPECT_EQ(server("field_limit = 1001"), "2:15 server.field_limit must be at most 1000\n");
  EXPECT_EQ(server("header_limit = \"2MiB\""), "2:16 server.header_limit must be at most 63KiB\n");
  EXPECT_EQ(server("body_limit = -1"), "2:14 server.body_limit must be at least 0\n");
  EXPECT_EQ(server("body_limit = 0"), "");
  EXPECT_EQ(server("header_timeout = \"0\""), "2:18 server.header_timeout must be at least 1ms\n");
  EXPECT_EQ(server("header_timeout = \"2h\""), "2:18 server.header_timeout must be at most 1h\n");
  EXPECT_EQ(server("listen = []"), "2:10 server.listen must not be empty\n");
  std::string many;
  for (int i = 0; i < 65; ++i) many += "\"*:0\",";
  EXPECT_EQ(server("listen = [" + many + "]"), "2:10 server.listen must have at most 64 items\n");
}

TEST(Errors, BadTexts) {
  auto server = [](const std::string& line) { return messages_of("[server]\n" + line + "\n" + serves); };
  EXPECT_EQ(server("grace = \"10 parsecs\""),
            "2:9 server.grace is not a duration | write numbers with units, as \"250ms\", \"10s\" or "
            "\"1h30m\": d, h, m, s, ms, us\n");
  EXPECT_EQ(server("body_limit = \"1MB\""),
            "2:14 server.body_limit is not a size | write a number of bytes, or with a unit, as \"16KiB\": B, "
            "KiB, MiB, GiB\n");
  EXPECT_EQ(server("access_log = \"of\""),
            "2:14 server.access_log must be \"off\", \"stdout\" or the path of a file, with a \"/\" or a \".\"\n");
  EXPECT_EQ(server("error_log = \"stdout\""),
            "2:13 server.error_log must be \"stderr\" or the path of a file, with a \"/\" or a \".\"\n");
  EXPECT_EQ(server("access_log = \"access.log\"\nerror_log = \"/errors\""), "");
  EXPECT_EQ(server("server_header = \"a\\nb\""), "2:19 a header field holds printable ASCII only\n");
  EXPECT_EQ(server("server_header = \"ä\""), "2:18 a header field holds printable ASCII only\n");
  EXPECT_EQ(server("http1 = false\nhttp2 = false"), "3:9 a server needs HTTP/1.1 or HTTP/2\n");
  EXPECT_EQ(server("http2_streams = 0"), "2:17 server.http2_streams must be at least 1\n");
  EXPECT_EQ(server("headers.X-A = \"b\"\nheaders.x-a = \"c\""),
            "3:9 this field comes twice | it is in line 2 already\n");
  EXPECT_EQ(server("headers.Content-Type = \"b\""), "2:9 the server writes this field itself\n");
  EXPECT_EQ(server("headers.SERVER = \"b\""),
            "2:9 the server writes this field itself | \"server_header\" of [server] sets it\n");
  EXPECT_EQ(server("headers.\"a b\" = \"c\""), "2:9 not the name of a header field\n");
  EXPECT_EQ(server("headers.a = \"b\\r\\nc: d\""), "2:15 a header field holds printable ASCII only\n");
  EXPECT_EQ(server("server_header = \" a\""), "2:17 a header field neither begins nor ends with a space\n");
  EXPECT_EQ(messages_of("[[files]]\npath = \"/\"\nroot = \"\"\nindex = [\"a/b\"]\n"),
            "3:8 files.root must not be empty\n4:10 files.index must be the name of a file\n");
  EXPECT_EQ(
      messages_of(
          "[[endpoint]]\npath = \"/\"\nget = \"SELECT 1\"\nparams.a = \"integer\"\n[database.m]\nurl = \"sqlite:a\""),
      "4:12 endpoint.params.a.type must be \"text\", \"int\", \"real\", \"bool\", \"bytes\", \"text[]\", \"int[]\", "
      "\"real[]\" or \"bool[]\" | did you mean \"int\"?\n");
}

TEST(Errors, MissingKeys) {
  EXPECT_EQ(errors_of("[[endpoint]]\ndatabase = \"main\"\n[database.main]\n"),
            "a.toml:1:1: error: [[endpoint]] needs the key \"path\"\n"
            "  1 | [[endpoint]]\n"
            "    | ^\n"
            "a.toml:3:1: error: [database.main] needs the key \"url\"\n"
            "  3 | [database.main]\n"
            "    | ^\n");
}

TEST(Errors, NothingToServe) {
  EXPECT_EQ(
      errors_of(""),
      "a.toml: error: there is nothing to serve\n  = add one of [[endpoint]], [[resident]], [[files]], [[websocket]], "
      "[[frames]], "
      "[[route]], [[room]]\n");
  EXPECT_EQ(errors_of("[[files]]\npath = \"/\"\nroot = \"public\"\n"), "");
}

// The messages for one resident table with these keys. The first key is in line 6.
std::string resident_messages(const std::string& keys, const std::string& url = "sqlite:a") {
  return messages_of("[database.main]\nurl = \"" + url + "\"\n[[resident]]\nname = \"users\"\nquery = \"SELECT 1\"\n" +
                     keys);
}

TEST(Errors, RefreshOfResidentTables) {
  const std::string postgres = "postgres://u@h/d";
  EXPECT_EQ(resident_messages("refresh = { every = \"10ms\" }\n"), "");
  EXPECT_EQ(resident_messages("refresh = { every = \"0\", notify = \"c\" }\n", postgres), "");
  EXPECT_EQ(resident_messages("refresh = { every = \"1s\", notify = \"c\" }\n"), "");
  EXPECT_EQ(resident_messages("refresh = { every = \"9ms\" }\n"), "6:21 \"every\" is 0, or at least 10ms\n");
  EXPECT_EQ(resident_messages("refresh = { every = \"0\" }\n"),
            "6:11 \"refresh\" says neither \"every\" nor \"notify\"\n");
  EXPECT_EQ(resident_messages("refresh = { every = \"0s\", notify = \"c\" }\nstale_after = \"1m\"\n", postgres),
            "7:15 without refresh.every the table would stay too old\n");
  EXPECT_EQ(resident_messages("refresh = { every = \"1m\" }\nstale_after = \"30s\"\n"),
            "7:15 the table would be too old before its next refresh: refresh.every is 1m\n");
  EXPECT_EQ(resident_messages("refresh = { every = \"1m\" }\nstale_after = \"61s\"\n"), "");
}

TEST(Errors, Databases) {
  const std::string endpoint = "[[endpoint]]\npath = \"/\"\nget = \"SELECT 1\"\n";
  EXPECT_EQ(messages_of(endpoint), "1:1 this endpoint needs a database | add [database.main]\n");
  EXPECT_EQ(messages_of(endpoint + "[database.a]\nurl = \"sqlite:a\"\n[database.b]\nurl = \"sqlite:b\"\n"),
            "1:1 this endpoint must say which database answers it | add database = \"a\"\n");
  EXPECT_EQ(messages_of(endpoint + "database = \"mian\"\n[database.main]\nurl = \"sqlite:a\"\n"),
            "4:12 there is no [database.mian] | did you mean \"main\"?\n");
  EXPECT_EQ(messages_of(endpoint + "[database.m]\nurl = \"mysql://a\"\n"),
            "5:7 database.m.url must be \"sqlite:FILE\" or \"postgres://user:password@host:port/name\"\n");
  EXPECT_EQ(messages_of(endpoint + "[database.m]\nurl = \"sqlite:a\"\nprepared = false\npipeline = 5\n"),
            "6:12 \"prepared\" is for PostgreSQL, and this database is SQLite\n"
            "7:12 \"pipeline\" is for PostgreSQL, and this database is SQLite\n");
  EXPECT_EQ(messages_of(endpoint + "[database.m]\nurl = \"sqlite:a\"\nstart_timeout = \"1s\"\n"),
            "6:17 \"start_timeout\" is for PostgreSQL, and this database is SQLite\n");
  EXPECT_EQ(messages_of(endpoint + "[database.m]\nurl = \"postgres://a\"\nprepared = false\npipeline = 5\n"),
            "7:12 \"pipeline\" needs prepared statements: without them, each request uses a connection of its own | "
            "remove \"pipeline\" or \"prepared = false\"\n");
  EXPECT_EQ(messages_of(endpoint + "[database.m]\nurl = \"postgres://a\"\nuntrusted = true\n"),
            "6:13 \"untrusted\" is for SQLite, and this database is PostgreSQL\n");
  EXPECT_EQ(messages_of(endpoint + "[database.m]\nurl = \"sqlite:a\"\nbatch = 2\n"),
            "6:9 \"batch\" is for PostgreSQL, and this database is SQLite\n");
  EXPECT_EQ(messages_of(endpoint + "[database.m]\nurl = \"postgres://a/b\"\nprepared = false\nbatch = 2\n"),
            "7:9 \"batch\" needs prepared statements, and \"prepared\" is false\n");
  EXPECT_EQ(messages_of(endpoint + "[database.m]\nurl = \"postgres://a/b\"\npipeline = 4\nbatch = 5\n"),
            "7:9 \"batch\" is larger than \"pipeline\"\n");
}

TEST(Errors, Requirements) {
  const std::string database = "[database.m]\nurl = \"sqlite:a\"\n";
  const auto messages = [&](const std::string& require) {
    return messages_of(database + "[[endpoint]]\npath = \"/{a}\"\nget = \"SELECT :a\"\n" + require);
  };
  EXPECT_EQ(messages("require = \"eq(path.a, 'x')\"\n"), "");
  EXPECT_EQ(messages("require = [\"eq(path.a, 'x')\", \"present(query.b)\"]\n"), "");
  EXPECT_EQ(messages("[[endpoint.require]]\nthat = \"present(query.b)\"\nstatus = 404\ndetail = \"No.\"\n"), "");
  EXPECT_EQ(messages("require = [\"present(query.b)\", \"eq(path.a 'x')\"]\n"), "6:43 \",\" or \")\" is missing\n");
  EXPECT_EQ(messages("require = \"\"\"\nand(eq(path.a, 'ä'),\n  eq(path.b, 1))\"\"\"\n"),
            "8:6 there is no {b} in the path\n");
  EXPECT_EQ(messages("require = \"exists(SELECT 1 WHERE 'a' = claim.sub)\"\n"),
            "6:19 there are no claims without a policy of type \"jwt\", \"api-key\" or \"basic\" in front | add use = "
            "[\"NAME\"] and [policy.NAME]\n");
  EXPECT_EQ(messages("post = { sql = \"INSERT\", require = \"nothing()\" }\n"),
            "6:37 an expression begins with eq, ne, in, contains, present, and, or, not or exists\n");
  EXPECT_EQ(messages("[[endpoint.require]]\nthat = \"present(query.b)\"\nstatus = 401\n"),
            "8:10 401 asks for credentials; only a policy answers with it\n");
  EXPECT_EQ(messages("[[endpoint.require]]\nstatus = 404\n"), "6:1 [[endpoint.require]] needs the key \"that\"\n");
}

TEST(Errors, Roles) {
  const std::string endpoint = "[[endpoint]]\npath = \"/\"\nget = \"SELECT 1\"\n";
  const std::string postgres = "[database.m]\nurl = \"postgres://a/b\"\n";
  const std::string guarded =
      endpoint + "use = [\"p\"]\n[policy.p]\ntype = \"jwt\"\nsecret = \"" + std::string(32, 'x') + "\"\n" + postgres;
  EXPECT_EQ(messages_of(endpoint + "[database.m]\nurl = \"sqlite:a\"\nrole = \"claim.role\"\nanonymous_role = \"a\"\n"),
            "6:8 \"role\" is for PostgreSQL, and this database is SQLite\n"
            "7:18 \"anonymous_role\" is for PostgreSQL, and this database is SQLite\n");
  EXPECT_EQ(messages_of(endpoint + postgres + "role = \"claim.role\"\n"),
            "1:1 [database.m] takes its role from a claim, and no policy that gives claims is in front | "
            "add use = [\"NAME\"] and [policy.NAME], or anonymous_role to the database\n");
  EXPECT_EQ(messages_of(guarded + "role = \"claim.role\"\n"), "");
  EXPECT_EQ(messages_of(endpoint + postgres + "role = \"claim.role\"\nanonymous_role = \"anon\"\n"), "");
  EXPECT_EQ(messages_of(endpoint + postgres + "anonymous_role = \"anon\"\n"), "");
  EXPECT_EQ(messages_of(endpoint + postgres + "anonymous_role = \"none\"\n"),
            "6:18 \"none\" is no role: PostgreSQL takes it for the login itself\n");
  EXPECT_EQ(messages_of(endpoint + postgres + "role = \"query.role\"\n"),
            "6:8 \"role\" must begin with claim, header or env: clients choose the others as they like\n");
  EXPECT_EQ(messages_of(endpoint + postgres + "role = \"env.NO_SUCH_VARIABLE\"\n"),
            "6:8 the environment has no NO_SUCH_VARIABLE | set it, or add anonymous_role\n");
}

TEST(Config, SourcesTakeTheirValuesFromTheGivenEnvironment) {
  const Options options = options_of(R"toml(
[[endpoint]]
path = "/a"
require = "or(eq(env.CORES, '4'), ne(env.CORES, env.HOST))"
get = "SELECT :a AS a, :b AS b"
params.a.from = "env.CORES"
params.b = { from = "env.NO_SUCH_VARIABLE", default = "x" }
[endpoint.put]
table = "t"
columns.c = { key = true, from = "env.EMPTY" }
require = "eq(env.SECRET, 'hunter2')"
[database.main]
url = "postgres://u@h/d"
role = "env.SECRET"
settings.TimeZone = "env.HOST"
)toml");
  ASSERT_EQ(options.endpoints.size(), 1U);
  const api::EndpointOptions& endpoint = options.endpoints[0];
  EXPECT_EQ(endpoint.params[0].value.environment, "4");
  EXPECT_EQ(endpoint.params[1].value.environment, std::nullopt);
  EXPECT_EQ(endpoint.put->columns[0].value.environment, "");
  using Variables = std::map<std::string, std::string>;
  EXPECT_EQ(endpoint.require.items[0].environment, (Variables{{"env.CORES", "4"}, {"env.HOST", "127.0.0.1:9000"}}));
  EXPECT_EQ(endpoint.put->require.items[0].environment, (Variables{{"env.SECRET", "hunter2"}}));
  EXPECT_EQ(options.databases[0].value.role_environment, "hunter2");
  EXPECT_EQ(options.databases[0].value.settings[0].value.environment, "127.0.0.1:9000");
}

TEST(Errors, AnEmptyVariableGuardsNothing) {
  EXPECT_EQ(messages_of("[database.m]\nurl = \"sqlite:a.db\"\n[[endpoint]]\npath = \"/a\"\nget = \"SELECT 1\"\n"
                        "require = \"eq(header.x-key, env.EMPTY)\"\n"),
            "6:29 env.EMPTY is empty | a request may have an empty value too\n");
}

TEST(Errors, Paths) {
  auto path = [](const std::string& text) {
    return messages_of("[[endpoint]]\npath = \"" + text + "\"\nget = \"SELECT 1\"\n[database.m]\nurl = \"sqlite:a\"\n");
  };
  EXPECT_EQ(path("/"), "");
  EXPECT_EQ(path("/films/{slug}/tags"), "");
  EXPECT_EQ(path("/films/{id:int}"), "");
  EXPECT_EQ(path("/docs/{rest...}"), "");
  EXPECT_EQ(path("/größe"), "");
  EXPECT_EQ(path("/a/"), "");
  EXPECT_EQ(path(""), "2:8 endpoint.path must not be empty\n");
  EXPECT_EQ(path("/a b"), "2:11 a path has no spaces and no control characters\n");
  EXPECT_EQ(path("/ä\\t"), "2:11 a path has no spaces and no control characters\n");
  EXPECT_EQ(path("/a?b"), "2:11 a path ends before the query string and \"#\"\n");
  EXPECT_EQ(path("/a#b"), "2:11 a path ends before the query string and \"#\"\n");
  EXPECT_EQ(path("/a%20b"), "2:11 paths are compared decoded: write the character itself\n");
  // Patterns that the router refuses are errors here, too.
  for (std::string bad : {"films", "//a", "/a/../b", "/a{b}", "/{b}c", "/{b", "/b}", "/{a}/{a:int}", "/{a...}/b",
                          "/{a:uuid}", "/{}", "/{1a}", "/{a-b}", "/{:int}", "/{...}", "/{{a}}"}) {
    EXPECT_TRUE(path(bad).starts_with("2:8 not a path: ")) << bad << ": " << path(bad);
  }
}

TEST(Errors, FilesBelowAnEndpointThatTakesEverything) {
  auto both = [](const std::string& endpoint, const std::string& files) {
    return messages_of("[[endpoint]]\npath = \"" + endpoint +
                       "\"\nget = \"SELECT 1\"\n[database.m]\nurl = \"sqlite:a\"\n[[files]]\npath = \"" + files +
                       "\"\nroot = \".\"\n");
  };
  const std::string taken = "7:8 an [[endpoint]] has the path \"";
  const std::string before = "\" | it is in line 2 already\n";
  EXPECT_EQ(both("/docs/{rest...}", "/docs/"), taken + "/docs/{rest...}" + before);
  EXPECT_EQ(both("/{rest...}", "/"), taken + "/{rest...}" + before);
  EXPECT_EQ(both("/docs/{rest...}", "/"), "");
  EXPECT_EQ(both("/docs", "/docs"), "");
  EXPECT_EQ(both("/docs/{name}", "/docs"), "");
}

TEST(Load, WebSockets) {
  const Options options = options_of(R"(
[[websocket]]
path = "/a"
handler = "echo"
[[websocket]]
path = "/b/{room}"
handler = "echo"
max_message = "2MiB"
max_frame = "64KiB"
origins = ["https://example.com", "*", "null"]
protocols = ["chat.v2"]
compression = "connection"
window_bits = 10
ping_interval = "1m"
pong_timeout = "2s"
close_timeout = "3s"
write_timeout = "4s"
)");
  ASSERT_EQ(options.websockets.size(), 2u);
  EXPECT_EQ(options.websockets[0].compression, ws::Compression::off);
  EXPECT_TRUE(options.websockets[0].origins.empty());
  const auto& second = options.websockets[1];
  EXPECT_EQ(second.max_message, 2u << 20);
  EXPECT_EQ(second.max_frame->value, 64u << 10);
  EXPECT_EQ(second.origins.size(), 3u);
  EXPECT_EQ(second.compression, ws::Compression::connection);
  EXPECT_EQ(second.window_bits, 10);
  EXPECT_EQ(second.ping_interval, 1min);
}

TEST(Errors, WebSockets) {
  const auto websocket = [](const std::string& keys) {
    return messages_of("[[websocket]]\npath = \"/a\"\nhandler = \"echo\"\n" + keys);
  };
  EXPECT_EQ(websocket(""), "");
  EXPECT_NE(messages_of("[[websocket]]\npath = \"/a\"\n"), "");
  EXPECT_NE(messages_of("[[websocket]]\npath = \"/a\"\nhandler = \"ech\"\n"), "");
  EXPECT_EQ(websocket("[[websocket]]\npath = \"/a\"\nhandler = \"echo\"\n"),
            "5:8 another [[websocket]] has the path \"/a\" | it is in line 2 already\n");
  EXPECT_EQ(websocket("max_message = 10\nmax_frame = 11\n"), "5:13 \"max_frame\" is larger than \"max_message\"\n");
  for (const char* origin :
       {"example.com", "https://", "https://a/", "https://a?b", "", "://a", "https://a:443", "http://a:80"}) {
    EXPECT_NE(websocket("origins = [\"" + std::string(origin) + "\"]\n"), "") << origin;
  }
  for (const char* protocol : {"", "a b", "a,b", "\u00e4"}) {
    EXPECT_NE(websocket("protocols = [\"" + std::string(protocol) + "\"]\n"), "") << protocol;
  }
  EXPECT_NE(websocket("window_bits = 8\n"), "");
  EXPECT_NE(websocket("window_bits = 16\n"), "");
}

TEST(Load, Gateways) {
  const Options options = options_of(R"(
[[upstream]]
name = "back-1"
servers = ["http://127.0.0.1:3000", "http://back.internal"]
connect_timeout = "1s"
response_timeout = "2s"
idle_timeout = "3s"
write_timeout = "4s"
tunnel_timeout = "6s"
keep = 0
keep_for = "5s"
[[route]]
path = "/a/{rest...}"
upstream = "back-1"
)");
  ASSERT_EQ(options.upstreams.size(), 1u);
  const gateway::UpstreamOptions& upstream = options.upstreams[0];
  EXPECT_EQ(upstream.servers.size(), 2u);
  EXPECT_EQ(upstream.connect_timeout, 1s);
  EXPECT_EQ(upstream.response_timeout, 2s);
  EXPECT_EQ(upstream.idle_timeout, 3s);
  EXPECT_EQ(upstream.write_timeout, 4s);
  EXPECT_EQ(upstream.tunnel_timeout, 6s);
  EXPECT_EQ(upstream.keep, 0u);
  EXPECT_EQ(upstream.keep_for, 5s);
  EXPECT_EQ(upstream.servers[1].url.value, "http://back.internal");
  EXPECT_EQ(upstream.servers[1].weight, 1u);
  EXPECT_EQ(options.find_upstream("back-1"), 0u);
  EXPECT_EQ(options.find_upstream("back"), std::nullopt);
}

TEST(Load, TlsToServers) {
  const Options options = options_of(R"(
[[upstream]]
name = "a"
servers = ["https://a.internal", "unix:/run/a.sock"]
tls = { ca = "/ca.pem", cert = "c.pem", key = "k.pem", name = "b.internal" }
[[upstream]]
name = "b"
servers = ["https://b.internal"]
[upstream.tls]
verify = false
[[upstream]]
name = "c"
servers = ["http://c.internal"]
[[route]]
path = "/a"
upstream = "a"
)");
  ASSERT_EQ(options.upstreams.size(), 3u);
  const gateway::UpstreamTlsOptions& tls = *options.upstreams[0].tls;
  EXPECT_EQ(tls.ca.value, "/ca.pem");
  EXPECT_EQ(tls.cert.value, "c.pem");
  EXPECT_EQ(tls.key.value, "k.pem");
  EXPECT_EQ(tls.name.value, "b.internal");
  EXPECT_TRUE(tls.verify.value && options.upstreams[0].is_secure() && options.upstreams[1].is_secure());
  EXPECT_FALSE(options.upstreams[1].tls->verify.value);
  EXPECT_FALSE(options.upstreams[2].tls || options.upstreams[2].is_secure());
}

TEST(Errors, TlsToServers) {
  const auto upstream = [](const std::string& servers, const std::string& tls) {
    return messages_of("[[upstream]]\nname = \"a\"\nservers = [\"" + servers + "\"]\n[upstream.tls]\n" + tls +
                       "\n[[route]]\npath = \"/a\"\nupstream = \"a\"\n");
  };
  EXPECT_EQ(upstream("https://a", ""), "");
  EXPECT_EQ(upstream("http://a", "verify = true"),
            "4:1 no server of this upstream speaks TLS | write \"https://...\" for one\n");
  EXPECT_EQ(upstream("https://a", "cert = \"a\""), "5:8 \"cert\" needs its \"key\"\n");
  EXPECT_EQ(upstream("https://a", "key = \"a\""), "5:7 \"key\" needs its \"cert\"\n");
  EXPECT_EQ(upstream("https://a", "ca = \"a\"\nverify = false"),
            "5:6 \"ca\" is used only where certificates are verified | leave out \"verify = false\"\n");
  EXPECT_EQ(upstream("https://a", "name = \"a:1\""),
            "5:8 upstream.tls.name must be a host's name, as \"billing.internal\" is\n");
  EXPECT_EQ(upstream("https://a", "veryfy = false"),
            "5:1 unknown key \"veryfy\" in [upstream.tls] | did you mean \"verify\"?\n");
}

TEST(Errors, Gateways) {
  const auto gateway = [](const std::string& upstream, const std::string& route) {
    return messages_of("[[upstream]]\nname = \"back\"\n" + upstream + "\n[[route]]\npath = \"/a\"\n" + route);
  };
  const std::string servers = "servers = [\"http://a\"]";
  EXPECT_EQ(gateway(servers, "upstream = \"back\"\n"), "");
  EXPECT_EQ(gateway(servers, "upstream = \"bakc\"\n"),
            "6:12 there is no [[upstream]] called \"bakc\" | did you mean \"back\"?\n");
  EXPECT_EQ(gateway(servers, "upstream = \"back\"\nuse = [\"auth\"]\n"), "7:8 there is no [policy.auth]\n");
  EXPECT_EQ(gateway("servers = [\"http://a\", \"http://a\"]", "upstream = \"back\"\n"),
            "3:24 this server comes twice | it is in line 3 already\n");
  EXPECT_EQ(gateway("servers = [\"http://a\", { url = \"http://a:80/\", weight = 2 }]", "upstream = \"back\"\n"),
            "3:32 this server comes twice | it is in line 3 already\n");
  EXPECT_EQ(gateway("servers = []", "upstream = \"back\"\n"), "3:11 upstream.servers must not be empty\n");
  EXPECT_TRUE(gateway("servers = [\"a:80\"]", "upstream = \"back\"\n")
                  .starts_with("3:12 upstream.servers.url must be a server"));
  EXPECT_EQ(gateway(servers + "\n[[upstream]]\nname = \"back\"\n" + servers, "upstream = \"back\"\n"),
            "5:8 another upstream has the same name | it is in line 2 already\n");
  EXPECT_EQ(gateway(servers, "upstream = \"back\"\n[[route]]\npath = \"/a\"\nupstream = \"back\"\n"),
            "8:8 another [[route]] has the path \"/a\" | it is in line 5 already; \"methods\", "
            "\"headers\" or \"query\" can tell them apart\n");
  EXPECT_EQ(gateway(servers,
                    "upstream = \"back\"\n[[files]]\npath = \"/b\"\nroot = \".\"\n[[route]]\n"
                    "path = \"/b/{x...}\"\nupstream = \"back\"\n")
                .empty(),
            false);
}

TEST(Load, Balance) {
  const Options options = options_of(R"(
[[upstream]]
name = "back"
servers = ["http://a", { url = "http://b", weight = 3, backup = true }]
required = true
balance = "hash"
hash = "cookie.session"
retries = { tries = 2, budget = "5%", at_least = 0 }
retry_on = "503"
eject = { after = 3, for = "1s", longest = "1m", at_most = "25%", status = "500-599", slow_start = "0s" }
[upstream.health]
path = "/healthz?a=b"
host = "app.example:8080"
fields = { X-Probe = "1" }
method = "OPTIONS"
every = "1s"
timeout = "100ms"
status = "204"
body = "all is well"
port = 8081
rise = 1
fall = 2
[[route]]
path = "/a"
upstream = "back"
)");
  const gateway::UpstreamOptions& upstream = options.upstreams[0];
  EXPECT_EQ(upstream.servers[1].weight, 3u);
  EXPECT_TRUE(upstream.servers[1].backup && !upstream.servers[0].backup);
  EXPECT_TRUE(upstream.required.value);
  EXPECT_EQ(upstream.balance.value, gateway::Balance::hash);
  EXPECT_EQ(upstream.hash.value, "cookie.session");
  EXPECT_EQ(upstream.retries.tries, 2u);
  EXPECT_EQ(upstream.retries.budget, "5%");
  EXPECT_EQ(upstream.retries.at_least, 0u);
  EXPECT_EQ(upstream.retry_on.value, "503");
  EXPECT_EQ(upstream.eject.after, 3u);
  EXPECT_EQ(upstream.eject.time.value, 1s);
  EXPECT_EQ(upstream.eject.longest, 1min);
  EXPECT_EQ(upstream.eject.percent(), 25u);
  EXPECT_EQ(upstream.eject.status, "500-599");
  EXPECT_EQ(upstream.eject.slow_start, 0s);
  ASSERT_TRUE(upstream.health);
  EXPECT_EQ(upstream.health->path, "/healthz?a=b");
  EXPECT_EQ(upstream.health->host.value, "app.example:8080");
  ASSERT_EQ(upstream.health->fields.size(), 1u);
  EXPECT_EQ(upstream.health->fields[0].value.value, "1");
  EXPECT_EQ(upstream.health->method.value, "OPTIONS");
  EXPECT_EQ(upstream.health->body.value, "all is well");
  EXPECT_EQ(upstream.health->port.value, 8081u);
  EXPECT_EQ(upstream.health->every, 1s);
  EXPECT_EQ(upstream.health->timeout, 100ms);
  EXPECT_EQ(upstream.health->status, "204");
  EXPECT_EQ(upstream.health->rise, 1u);
  EXPECT_EQ(upstream.health->fall, 2u);
}

TEST(Errors, Balance) {
  const auto upstream = [](const std::string& line) {
    return messages_of("[[upstream]]\nname = \"back\"\nservers = [\"http://a\"]\n" + line +
                       "[[route]]\npath = \"/a\"\nupstream = \"back\"\n");
  };
  EXPECT_EQ(upstream("health = {}\neject = {}\nbalance = \"least\"\n"), "");
  EXPECT_TRUE(upstream("balance = \"lest\"\n").ends_with("did you mean \"least\"?\n"))
      << upstream("balance = \"lest\"\n");
  EXPECT_EQ(upstream("balance = \"hash\"\n"),
            "4:11 balance = \"hash\" needs the key \"hash\" | add hash = \"client\", or another value\n");
  EXPECT_EQ(upstream("hash = \"client\"\n"), "4:8 \"hash\" is for balance = \"hash\"\n");
  for (const char* wrong : {"clients", "header.", "header", "cookie.a b", "claim.", ".", "header.a:b", "query.a"}) {
    EXPECT_TRUE(upstream("balance = \"hash\"\nhash = \"" + std::string(wrong) + "\"\n")
                    .starts_with("5:8 upstream.hash must be \"client\""))
        << wrong;
  }
  for (const char* wrong : {"50", "101%", "-1%", "%", "a%", "5 %"}) {
    EXPECT_TRUE(
        upstream("eject.at_most = \"" + std::string(wrong) + "\"\n").starts_with("4:17 upstream.eject.at_most must be"))
        << wrong;
  }
  for (const char* wrong : {"499", "404-503", "600", "503-502", "503-", "5xx", "502,503"}) {
    EXPECT_TRUE(
        upstream("eject.status = \"" + std::string(wrong) + "\"\n").starts_with("4:16 upstream.eject.status must be"))
        << wrong;
    EXPECT_TRUE(upstream("retry_on = \"" + std::string(wrong) + "\"\n").starts_with("4:12 upstream.retry_on must be"))
        << wrong;
  }
  EXPECT_EQ(upstream("retries = 0\nretry_on = \"503\"\n"), "5:12 \"retry_on\" is for \"retries\" above 0\n");
  EXPECT_EQ(upstream("queue = 1\n"), "4:9 \"queue\" needs \"connections\"\n");
  EXPECT_EQ(upstream("connections = 1\nwait = \"2s\"\n"), "5:8 \"wait\" needs \"queue\"\n");
  EXPECT_EQ(upstream("required = true\n"),
            "4:12 \"required\" needs \"health\": only failed probes remove all servers\n");
  EXPECT_EQ(upstream("eject = { for = \"1h\" }\n"),
            "4:17 an ejection would last longer than \"longest\" allows | \"longest\" is 5m\n");
  EXPECT_NE(upstream("health = { status = \"199\" }\n"), "");
  EXPECT_NE(upstream("health = { path = \"healthz\" }\n"), "");
  EXPECT_NE(upstream("health = { path = \"/a b\" }\n"), "");
  for (const char* wrong :
       {"host = \"a b\"", "host = \"http://a\"", "method = \"POST\"", "port = 0", "port = 65536",
        "fields = { \"a b\" = \"1\" }", "fields = { host = \"a\" }", "fields = { TE = \"trailers\" }",
        "fields = { A = \"a\\nb\" }", "method = \"HEAD\", body = \"a\""}) {
    EXPECT_NE(upstream("health = { path = \"/\", " + std::string(wrong) + " }\n"), "") << wrong;
  }
  for (const char* key : {"host", "method", "body", "fields"}) {
    const std::string value = std::string(key) == "fields" ? "{ A = \"b\" }" : "\"GET\"";
    EXPECT_TRUE(upstream("health = { " + std::string(key) + " = " + value + " }\n").contains("needs \"path\"")) << key;
  }
  EXPECT_EQ(upstream("retries = 10\n"), "");
  EXPECT_EQ(upstream("retries = 11\n"), "4:11 upstream.retries.tries must be at most 10\n");
  EXPECT_EQ(upstream("retries = { budget = \"120%\" }\n"),
            "4:22 upstream.retries.budget must be a share from \"0%\" to \"100%\"\n");
  EXPECT_EQ(upstream("retries = { tries = 0 }\nretry_on = \"503\"\n"),
            "5:12 \"retry_on\" is for \"retries\" above 0\n");
  EXPECT_EQ(upstream("balance = \"hash\"\nhash = \"claim.sub\"\n"),
            "5:8 requests of a route to this upstream have no claims | route \"/a\" needs a policy of type \"jwt\", "
            "\"api-key\" or \"basic\"\n");
}

TEST(Errors, WhatARouteDoes) {
  const auto route = [](const std::string& keys, const std::string& path = "/a/{x}/{rest...}") {
    return messages_of("[[upstream]]\nname = \"b\"\nservers = [\"http://a\"]\n[[route]]\npath = \"" + path + "\"\n" +
                       keys);
  };
  EXPECT_EQ(route("respond = 404\n"), "");
  EXPECT_EQ(route("redirect = \"https://example.com/{x}?y\"\nhost = \"*.example.com\"\n"), "");
  EXPECT_EQ(
      route("split = {b = 1}\nstrip = \"/a\"\nmethods = [\"GET\"]\nheaders = {X-A = \"*\"}\nquery = {q = \"1\"}\n"),
      "");
  EXPECT_EQ(route("upstream = \"b\"\nrewrite = {match = \"^/a\", to = \"/b\"}\n"), "");
  EXPECT_EQ(route("upstream = \"b\"\nrespond = 404\n"),
            "4:1 this route has more than one answer | a route has one of \"upstream\", \"split\", \"redirect\" and "
            "\"respond\"\n");
  EXPECT_EQ(route("use = []\n"),
            "4:1 this route has no answer | a route has one of \"upstream\", \"split\", \"redirect\" and "
            "\"respond\"\n");
  EXPECT_EQ(route("split = {b = 0}\n"), "6:10 no upstream has a share\n");
  EXPECT_EQ(route("split = {c = 1}\n"), "6:10 there is no [[upstream]] called \"c\"\n");
  EXPECT_EQ(route("split = {b = 1}\nsplit_by = \"cookie.variant\"\n"), "");
  EXPECT_EQ(route("split = {b = 1}\nsplit_by = \"client\"\n"),
            "7:12 route.split_by must be \"header.NAME\" or \"cookie.NAME\"\n");
  EXPECT_EQ(route("upstream = \"b\"\nsplit_by = \"header.X-User\"\n"), "7:12 \"split_by\" is for \"split\"\n");
  EXPECT_EQ(route("upstream = \"b\"\nbuffer_request = true\nupgrade = [\"SPDY/3.1\"]\n"), "");
  EXPECT_EQ(route("upstream = \"b\"\nupgrade = []\n"), "");
  EXPECT_EQ(route("respond = 204\nbuffer_request = true\n"),
            "7:18 \"buffer_request\" is for requests to an upstream\n");
  EXPECT_EQ(route("respond = 204\nupgrade = [\"websocket\"]\n"), "7:12 \"upgrade\" is for requests to an upstream\n");
  for (const char* const carrier : {"h2c", "HTTP/2.0", "tls/1.0", "h2"}) {
    EXPECT_EQ(route("upstream = \"b\"\nupgrade = [\"" + std::string(carrier) + "\"]\n"),
              "7:12 route.upgrade must be a protocol that carries no HTTP requests\n");
  }
  EXPECT_EQ(route("upstream = \"b\"\nupgrade = [\"a b\"]\n"),
            "7:12 route.upgrade must be a protocol, as \"websocket\" is\n");
  EXPECT_EQ(route("redirect = {to = \"/\", status = 305}\n"),
            "6:32 a redirect has the status 301, 302, 303, 307 or 308\n");
  EXPECT_EQ(route("redirect = \"/{y}\"\n"), "6:12 there is no {y} in the route's path\n");
  EXPECT_EQ(route("upstream = \"b\"\nstrip = \"/b\"\n"), "7:9 the route's path does not begin with these segments\n");
  EXPECT_EQ(route("upstream = \"b\"\nstrip = \"/a/{x}\"\n"),
            "7:9 the route's path does not begin with these segments\n");
  EXPECT_EQ(route("upstream = \"b\"\nstrip = \"/a/\"\n"), "7:9 must not end with \"/\"\n");
  EXPECT_EQ(route("respond = 204\npreserve_host = true\n"),
            "7:17 only a request to an upstream has a host that can be preserved\n");
  EXPECT_EQ(route("upstream = \"b\"\npreserve_host = false\n"), "");
  EXPECT_EQ(route("respond = 204\nstrip = \"/a\"\n"), "7:9 only the path of a request to an upstream can be changed\n");
  EXPECT_TRUE(
      route("upstream = \"b\"\nrewrite = {match = \"(\", to = \"/b\"}\n").starts_with("7:20 not a regular expression"));
  EXPECT_EQ(route("upstream = \"b\"\nmethods = [\"get\"]\n"),
            "7:12 route.methods must be a method in capital letters, but not HEAD (which goes with GET), TRACE or "
            "CONNECT\n");
  EXPECT_EQ(route("upstream = \"b\"\nmethods = [\"PROPFIND\", \"GET\"]\n"), "");
  EXPECT_EQ(route("respond = 204\nmethods = [\"PROPFIND\"]\n"),
            "7:12 only a request to an upstream may have the method PROPFIND\n");
  EXPECT_EQ(route("upstream = \"b\"\nhost = \"A.example\"\n"), "7:8 route.host must be in lower case\n");
  EXPECT_EQ(route("upstream = \"b\"\nheaders = {\"X A\" = \"1\"}\n"), "7:12 this is no name of a header field\n");
  EXPECT_EQ(route("respond = {headers = {Date = \"1\"}}\n"), "6:23 Date is not set here\n");
}

TEST(Errors, RoutesThatOneRequestCouldMeet) {
  const auto two = [](const std::string& first, const std::string& second) {
    return messages_of("[[route]]\npath = \"/a\"\nrespond = 200\n" + first +
                       "\n[[route]]\npath = \"/a\"\nrespond = 200\n" + second + "\n");
  };
  const std::string same =
      "6:8 another [[route]] has the path \"/a\" | it is in line 2 already; \"methods\", "
      "\"headers\" or \"query\" can tell them apart\n";
  EXPECT_EQ(two("", ""), same);
  EXPECT_EQ(two("host = \"a\"", ""), "");
  EXPECT_EQ(two("host = \"a\"", "host = \"a\""), same);
  EXPECT_EQ(two("methods = [\"GET\"]", "methods = [\"POST\", \"PUT\"]"), "");
  EXPECT_EQ(two("methods = [\"GET\", \"PUT\"]", "methods = [\"POST\", \"PUT\"]"), same);
  EXPECT_EQ(two("headers = {V = \"1\"}", ""), "");
  EXPECT_EQ(two("headers = {V = \"1\"}", "headers = {v = \"2\"}"), "");
  EXPECT_EQ(two("headers = {V = \"1\"}", "headers = {v = \"*\"}"), same);
  EXPECT_EQ(two("headers = {V = \"1\"}", "query = {v = \"2\"}"), same);
}

TEST(Errors, PathsThatMatchTheSame) {
  auto two = [](const std::string& first, const std::string& second) {
    return messages_of("[[endpoint]]\npath = \"" + first + "\"\nget = \"SELECT 1\"\n[[endpoint]]\npath = \"" + second +
                       "\"\nget = \"SELECT 1\"\n[database.m]\nurl = \"sqlite:a\"\n");
  };
  EXPECT_EQ(two("/{a}/b", "/{c}/b"), "5:8 another [[endpoint]] has the path \"/{a}/b\" | it is in line 2 already\n");
  EXPECT_EQ(two("/{a...}", "/{b...}"), "5:8 another [[endpoint]] has the path \"/{a...}\" | it is in line 2 already\n");
  EXPECT_EQ(two("/{a}", "/{a:int}"), "");
  EXPECT_EQ(two("/{a}", "/{a...}"), "");
  EXPECT_EQ(two("/a", "/b"), "");
  const std::string files = "[[files]]\npath = \"/x\"\nroot = \"a\"\n";
  EXPECT_EQ(messages_of(files + "[[files]]\npath = \"/x/\"\nroot = \"b\"\n"),
            "5:8 another [[files]] has the path \"/x\" | it is in line 2 already\n");
  EXPECT_EQ(messages_of("[[files]]\npath = \"/{x}\"\nroot = \"a\"\n"),
            "2:8 the path of files has no parameters | everything below it is served\n");
  EXPECT_EQ(messages_of("[[files]]\npath = \"x\"\nroot = \"a\"\n"), "2:8 not a path: a path begins with /\n");
}

TEST(Errors, Listen) {
  EXPECT_EQ(errors_of("[server]\nlisten = [\"127.0.0.1:8080\", \"localhost\"]\n" + serves),
            "a.toml:2:29: error: this is not an address to listen on\n"
            "  2 | listen = [\"127.0.0.1:8080\", \"localhost\"]\n"
            "    |                             ^\n"
            "    = write \"127.0.0.1:8080\", \"[::1]:8080\", \"*:8080\" or \"unix:/run/sluice.sock\"\n");
  EXPECT_EQ(messages_of("[server]\nlisten = [\"*:1\", \"*:1\"]\n" + serves),
            "2:18 [::]:1 is already listened on | it is in line 2 already\n");
  EXPECT_EQ(messages_of("[server]\nlisten = [\"127.0.0.1:8081\"]\n" + serves),
            "2:11 127.0.0.1:8081 is where [admin] listens by default | give [admin] another \"listen\"\n");
  EXPECT_EQ(messages_of("[admin]\nlisten = \"127.0.0.1:8080\"\n" + serves),
            "2:10 127.0.0.1:8080 is already listened on | it is the default of another key\n");
  EXPECT_EQ(messages_of("[server]\nlisten = [\"127.0.0.1:0\", \"127.0.0.1:0\"]\n" + serves), "");
}

TEST(Load, Policies) {
  const Options options = options_of(serves + R"(
[[files]]
path = "/a"
root = "b"
use = ["first"]
[policy.first]
type = "jwt"
secret = "${SECRET}"
issuer = "one"
audience = ["a", "b"]
leeway = "5s"
require_exp = false
optional = true
realm = "films"
token_limit = "1KiB"
cache_tokens = 7
cache_memory = "1MiB"
[policy.second]
type = "jwt"
jwks = "keys.json"
[policy.other]
type = "jwt"
public_key = "k.pem"
algorithms = ["PS256", "EdDSA"]
require = [{ claim = "scope", any = ["a", "b"] }, { claim = "realm_access.roles", all = ["c d"] }]
)");
  ASSERT_EQ(options.policies.size(), 3u);
  const gateway::jwt::Options& first = options.policies[0].value.of<gateway::jwt::Options>();
  EXPECT_EQ(options.policies[0].name.value, "first");
  EXPECT_EQ(options.policies[0].value.type.value, gateway::policy_type<gateway::jwt::Options>);
  EXPECT_EQ(first.secret->value, "hunter2");
  EXPECT_EQ(first.issuer.items, std::vector<std::string>{"one"});
  EXPECT_EQ(first.audience.items, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(first.leeway, 5s);
  EXPECT_FALSE(first.require_exp);
  EXPECT_TRUE(first.optional);
  EXPECT_EQ(first.realm.value, "films");
  EXPECT_EQ(first.token_limit, 1_KiB);
  EXPECT_EQ(first.cache_tokens, 7u);
  EXPECT_EQ(first.cache_memory, 1_MiB);
  const gateway::jwt::Options& second = options.policies[1].value.of<gateway::jwt::Options>();
  EXPECT_EQ(second.jwks->value, "keys.json");
  EXPECT_TRUE(second.issuer.items.empty());
  EXPECT_EQ(second.leeway, 30s);
  EXPECT_TRUE(second.require_exp);
  EXPECT_FALSE(second.optional);
  EXPECT_TRUE(second.algorithms.empty());
  using enum gateway::jwt::Algorithm;
  const gateway::jwt::Options& other = options.policies[2].value.of<gateway::jwt::Options>();
  EXPECT_EQ(other.algorithms, (std::vector{ps256, eddsa}));
  ASSERT_EQ(other.require.size(), 2u);
  EXPECT_EQ(other.require[0].any[1].value, "b");
  EXPECT_EQ(other.require[1].claim.value, "realm_access.roles");
  EXPECT_EQ(other.require[1].all[0].value, "c d");
}

TEST(Errors, CorsPolicies) {
  const auto policy = [](const std::string& lines, const std::string& more = serves) {
    return messages_of("[policy.web]\ntype = \"cors\"\n" + lines + more);
  };
  const std::string origins = "origins = [\"https://a.example\"]\n";
  EXPECT_EQ(policy(origins), "");
  EXPECT_EQ(policy("origins = [\"*\"]\n"), "");
  EXPECT_EQ(policy(""), "1:1 [policy.web] needs the key \"origins\"\n");
  EXPECT_EQ(
      policy("origins = [\"*\"]\ncredentials = true\n"),
      "3:12 [policy.web] has \"credentials\", with which browsers do not accept the origin \"*\" | name the origins\n");
  EXPECT_EQ(
      policy("origins = [\"https://a.example/\"]\n"),
      "3:12 policy.web.origins must be \"*\", or as browsers write it: \"https://app.example\", or with a port\n");
  EXPECT_EQ(policy(origins + "expose = [\"a b\"]\n"), "4:11 policy.web.expose must be the name of a header field\n");
  EXPECT_EQ(policy(origins + "secret = \"x\"\n"),
            "4:1 [policy.web] has no key \"secret\": that is for type = \"jwt\"\n");
  EXPECT_EQ(policy(origins + "maxage = \"1s\"\n"),
            "4:1 unknown key \"maxage\" in [policy.web] | did you mean \"max_age\"?\n");
  EXPECT_EQ(policy(origins, "[server.headers]\nAccess-Control-Allow-Origin = \"*\"\n" + serves),
            "5:1 [policy.web] gives answers this field too | leave it to the policy\n");
  EXPECT_EQ(
      policy(origins, "[[websocket]]\npath = \"/a\"\nhandler = \"echo\"\nuse = [\"web\"]\n"),
      "5:8 a policy of type \"cors\" has no effect on a websocket | \"origins\" of [[websocket]] says whose pages may "
      "connect\n");
  EXPECT_EQ(policy(origins, "[policy.more]\ntype = \"cors\"\n" + origins +
                                "[[files]]\npath = \"/\"\nroot = \"r\"\nuse = [\"web\", \"more\"]\n"),
            "10:15 a route uses one policy of type \"cors\" at most | a policy may have several \"origins\"\n");
}

TEST(Errors, Policies) {
  const auto policy = [](const std::string& lines) {
    return messages_of("[policy.auth]\ntype = \"jwt\"\n" + lines + serves);
  };
  const std::string key = "public_key = \"k\"\n";
  EXPECT_EQ(policy(key), "");
  EXPECT_EQ(policy(""),
            "1:9 [policy.auth] has no key to verify tokens with | add \"secret\", \"secret_file\", \"public_key\", "
            "\"jwks\" or \"jwks_url\"\n");
  EXPECT_EQ(policy(key + "jwks = \"j\"\n"),
            "1:9 [policy.auth] has more than one of \"secret\", \"secret_file\", \"public_key\", \"jwks\" and "
            "\"jwks_url\"\n");
  EXPECT_EQ(messages_of("[policy.auth]\nsecret = \"x\"\n" + serves), "1:1 [policy.auth] needs the key \"type\"\n");
  EXPECT_EQ(
      messages_of("[policy.auth]\ntype = \"jtw\"\nsecret = \"x\"\n" + serves),
      "2:8 policy.auth.type must be \"jwt\", \"cors\", \"ip\", \"mtls\", \"api-key\", \"basic\", \"auth-request\", "
      "\"headers\", \"query\", \"rate-limit\", \"concurrency\" or \"body-limit\" | did you mean \"jwt\"?\n");
  EXPECT_EQ(policy("dry_run = true\n" + key), "");
  for (const auto& [type, why] : {std::pair{"body-limit\"\nsize = 1", "it stops a body while the body arrives"},
                                  {"headers\"\nrequest_id = true", "it refuses no request"}}) {
    const std::string name(type, std::string_view(type).find('"'));
    EXPECT_EQ(messages_of("[policy.auth]\ndry_run = true\ntype = \"" + std::string(type) + "\n" + serves),
              "2:11 a policy of type \"" + name + "\" has no dry run | " + why + "\n");
  }
  EXPECT_EQ(policy("jwks = \"https://a/jwks.json\"\n"), "3:8 \"jwks\" is the path of a file | write \"jwks_url\"\n");
  const std::string url = "jwks_url = \"https://a/jwks.json\"\n";
  EXPECT_EQ(policy(url + "jwks_every = \"1m\"\njwks_timeout = \"1s\"\njwks_ca = \"ca.pem\"\n"), "");
  EXPECT_EQ(policy("jwks_url = \"keys.json\"\n"),
            "3:12 policy.auth.jwks_url must be a URL, as \"https://issuer.example/.well-known/jwks.json\" is\n");
  EXPECT_EQ(policy("jwks_url = \"http://127.0.0.1:8080/keys\"\n"), "");
  EXPECT_EQ(
      policy("jwks_url = \"http://issuer.example/keys\"\n"),
      "3:12 policy.auth.jwks_url must begin with \"https://\", except for \"localhost\" and loopback addresses: an "
      "attacker who changes the keys can sign tokens\n");
  EXPECT_EQ(policy(key + url).substr(0, 40), "1:9 [policy.auth] has more than one of \"");
  EXPECT_EQ(policy(key + "jwks_every = \"1m\"\n"),
            "4:14 [policy.auth] fetches no keys | \"jwks_every\" is for \"jwks_url\"\n");
  EXPECT_EQ(policy(key + "jwks_ca = \"ca.pem\"\n"),
            "4:11 [policy.auth] fetches no keys | \"jwks_ca\" is for \"jwks_url\"\n");
  EXPECT_EQ(policy(url + "jwks_every = \"500ms\"\n"), "4:14 policy.auth.jwks_every must be at least 1s\n");
  EXPECT_EQ(policy(url + "jwks_timeout = \"2m\"\n"), "4:16 policy.auth.jwks_timeout must be at most 1m\n");
  EXPECT_EQ(policy("secret = \"${NONE}\"\n"),
            "3:11 the environment variable NONE is not set | ${NONE:-default} gives it a default\n");
  EXPECT_EQ(policy("secret = \"\"\n"), "3:10 policy.auth.secret must not be empty\n");
  EXPECT_NE(policy(key + "algorithms = [\"none\"]\n").find("4:15 policy.auth.algorithms must be \"HS256\", "),
            std::string::npos);
  const auto require = [&](const std::string& one) { return policy(key + "require = [{ " + one + " }]\n"); };
  EXPECT_EQ(require("claim = \"scope\", any = [\"a\"]"), "");
  EXPECT_EQ(require("any = [\"a\"]"), "4:12 [[policy.auth.require]] needs the key \"claim\"\n");
  EXPECT_EQ(require("claim = \"\", any = [\"a\"]"), "4:22 policy.auth.require.claim must not be empty\n");
  EXPECT_EQ(require("claim = \"roles\""),
            "4:12 [policy.auth] requires no words of the claim \"roles\" | add \"any\" or \"all\"\n");
  EXPECT_EQ(require("claim = \"roles\", all = []"),
            "4:12 [policy.auth] requires no words of the claim \"roles\" | add \"any\" or \"all\"\n");
  EXPECT_EQ(require("claim = \"roles\", all = [\"a\", \"\"]"), "4:43 policy.auth.require.all must not be empty\n");
  EXPECT_EQ(require("claim = \"roles\", all = [\"the owner\"]"), "");
  for (const char* word : {"a b", "\u00e4", "a\\\"b", "a\\nb"}) {
    EXPECT_EQ(require("claim = \"scp\", any = [\"a\", \"" + std::string(word) + "\"]"),
              "4:41 a scope is printable ASCII without spaces, quotes and backslashes\n");
  }
  EXPECT_EQ(policy(key + "require = \"scope\"\n"), "4:11 policy.auth.require must be a list of tables, not a string\n");
  EXPECT_EQ(policy(key + "audience = []\n"), "4:12 policy.auth.audience must not be empty\n");
  EXPECT_EQ(policy(key + "audience = [\"a\", \"\"]\n"), "4:18 policy.auth.audience must not be empty\n");
  EXPECT_EQ(policy(key + "audience = 1\n"), "4:12 policy.auth.audience must be a string, not an integer\n");
  EXPECT_EQ(policy(key + "issuer = \"\"\n"), "4:10 policy.auth.issuer must not be empty\n");
  EXPECT_EQ(policy(key + "leeway = \"2h\"\n"), "4:10 policy.auth.leeway must be at most 1h\n");
  EXPECT_EQ(policy(key + "token_limit = 100\n"), "4:15 policy.auth.token_limit must be at least 256B\n");
  for (const char* realm : {"", "a\\\"b", "a\\\\b", "\u00e4", "a\\nb"}) {
    EXPECT_NE(policy(key + "realm = \"" + realm + "\"\n"), "") << realm;
  }
  const auto use = [&](const std::string& names) {
    return messages_of("[[files]]\npath = \"/\"\nroot = \"r\"\nuse = [" + names + "]\n[policy.auth]\ntype = \"jwt\"\n" +
                       key + "[policy.more]\ntype = \"jwt\"\n" + key);
  };
  EXPECT_EQ(use("\"auth\""), "");
  EXPECT_EQ(use("\"auht\""), "4:8 there is no [policy.auht] | did you mean \"auth\"?\n");
  EXPECT_EQ(use("\"auth\", \"auth\""), "4:16 \"auth\" comes twice\n");
  EXPECT_EQ(use("\"auth\", \"more\""),
            "4:16 a route uses one policy of type \"jwt\" at most | "
            "a policy may have several keys (in \"jwks\"), issuers and audiences\n");
  EXPECT_EQ(messages_of(serves + "[[endpoint]]\npath = \"/a\"\nget = \"SELECT 1\"\nuse = [\"a\"]\n"),
            "9:8 there is no [policy.a]\n");
  EXPECT_EQ(messages_of("[[websocket]]\npath = \"/a\"\nhandler = \"echo\"\nuse = [\"a\"]\n"),
            "4:8 there is no [policy.a]\n");
}

TEST(Errors, WhatIsNeverUsed) {
  const auto endpoint = [](const std::string& lines) {
    return messages_of("[[endpoint]]\npath = \"/a\"\n" + lines + "[database.m]\nurl = \"sqlite:a\"\n");
  };
  const std::string nothing = "this method creates nothing, so its answer has no Location";
  const std::string location = "location = \"/a\"\n";
  for (const char* method : {"put", "patch", "delete"}) {
    const std::string found =
        endpoint("[endpoint." + std::string(method) + "]\nsql = \"UPDATE a SET b = 1\"\n" + location);
    EXPECT_TRUE(found.starts_with("5:12 " + nothing)) << found;
  }
  EXPECT_NE(endpoint("[endpoint.post]\nsql = \"SELECT 1\"\n" + location), "");
  EXPECT_EQ(endpoint("[endpoint.post]\nsql = \" Insert INTO a VALUES (1)\"\n" + location), "");
  for (const char* method : {"post", "put"}) {
    EXPECT_EQ(endpoint("[endpoint." + std::string(method) + "]\ntable = \"a\"\ncolumns.b = {}\n" + location), "");
  }
  EXPECT_EQ(endpoint("post = \"INSERT INTO a VALUES (1)\"\ncache_control = \"no-store\"\n"),
            "4:17 \"cache_control\" is for the answers of \"get\", which is not there\n");
  EXPECT_EQ(messages_of("[server]\ntarget_limit = \"64B\"\n[[endpoint]]\npath = \"/" + std::string(64, 'a') +
                        "\"\nget = \"SELECT 1\"\n" + serves),
            "4:8 no request reaches this path: it is longer than target_limit\n");
}

TEST(Errors, WhatAMethodThatWritesIsToDo) {
  const auto endpoint = [](const std::string& lines) {
    return messages_of("[database.m]\nurl = \"sqlite:a\"\n[[endpoint]]\npath = \"/a\"\n" + lines);
  };
  const std::string table = "table = \"a\"\ncolumns.b = { key = true }\n";
  const std::string set = table + "existing = \"SELECT b FROM a\"\n";
  for (const char* limit : {"1000", "\"1000\"", "\"10%\"", "0"}) {
    EXPECT_EQ(endpoint("[endpoint.put]\n" + set + "accepts_object = true\nmax_deleted = " + limit + "\n"), "");
  }
  for (const char* limit : {"-1", "\"101%\"", "0.5", "\"some\"", "true"}) {
    const std::string found = endpoint("[endpoint.put]\n" + set + "max_deleted = " + limit + "\n");
    EXPECT_TRUE(found.contains("must be a number of rows, or a share from")) << limit << found;
  }
  const std::string own = "insert = \"INSERT INTO a VALUES (:b)\"\n";
  const std::string removes = "delete = \"DELETE FROM a WHERE b = :b\"\n";
  EXPECT_EQ(endpoint("[endpoint.put]\n" + set + own + removes), "");
  EXPECT_EQ(endpoint("[endpoint.patch]\nset = true\n" + table + own), "");
  EXPECT_TRUE(endpoint("[endpoint.put]\n" + table + own).contains("\"insert\" is a statement of a set"));
  for (const std::string& head : {"[endpoint.put]\n" + table, "[endpoint.post]\n" + table}) {
    EXPECT_TRUE(endpoint(head + removes).contains("is the statement of a set, a PUT that has \"existing\"")) << head;
    EXPECT_FALSE(endpoint(head + removes).contains("move it")) << head;
  }
  EXPECT_TRUE(
      endpoint("[endpoint.patch]\nset = true\n" + table + removes).contains("a PATCH of a set deletes nothing"));
  for (const char* key : {"accepts_object = true", "max_deleted = 1"}) {
    for (const std::string& head : {"[endpoint.put]\n" + table, "[endpoint.patch]\nset = true\n" + table}) {
      EXPECT_TRUE(endpoint(head + key + "\n").contains("is for a PUT of a set")) << head << key;
    }
  }
  EXPECT_TRUE(endpoint("[endpoint.put]\n" + set + "returns = \"rows\"\n").contains("a set answers with counts"));
  EXPECT_TRUE(endpoint("[endpoint.put]\n" + set + "creates = true\n").contains("a set answers with counts"));
  EXPECT_TRUE(endpoint("[endpoint.post]\nsql = \"SELECT 1\"\nreturns = \"file\"\n").contains("only GET answers"));
  EXPECT_TRUE(endpoint("[endpoint.delete]\nsql = \"SELECT 1\"\ncreates = true\n").contains("DELETE creates nothing"));
  EXPECT_EQ(endpoint("[endpoint.post]\nsql = \"SELECT f(1)\"\ncreates = true\nlocation = \"/a\"\n"), "");
  EXPECT_TRUE(endpoint("[endpoint.post]\nsql = \"INSERT INTO a VALUES (1)\"\ncreates = false\nlocation = \"/a\"\n")
                  .contains("this method creates nothing"));
  EXPECT_TRUE(endpoint("[endpoint.post]\ntable = \"a\"\ncolumns.b = { ignored = true, required = true }\n")
                  .contains("is ignored, so it has no other keys"));
}

TEST(Errors, APassword) {
  const auto endpoint = [](const std::string& lines) {
    return messages_of("[database.m]\nurl = \"sqlite:a\"\n[[endpoint]]\npath = \"/a/{id}\"\n" + lines);
  };
  const std::string post = "post = \"INSERT INTO a VALUES (:id, :word)\"\n";
  const auto password = [](const std::string& more) { return "params.word = { hash = \"argon2id\"" + more + " }\n"; };
  EXPECT_EQ(endpoint(post + password(", min_length = 256, common = true, type = \"text\", required = true")), "");
  EXPECT_EQ(endpoint(post + password(", from = \"body.a.word\"")), "");
  EXPECT_TRUE(endpoint(post + password(", min_length = 257")).contains("must be at most 256"));
  EXPECT_TRUE(endpoint(post + "params.word = { hash = \"md5\" }\n").starts_with("6:24 "));
  for (const char* key : {"min_length = 9", "common = true"}) {
    EXPECT_TRUE(endpoint(post + "params.word = { " + key + " }\n").contains("has no \"hash\" | add hash")) << key;
  }
  for (const char* key : {"values = [\"a\"]", "min = 12", "max = 20", "default = \"a\"", "store = \"s\"",
                          "ignored = true", "trim = true"}) {
    const std::string name(key, std::string_view(key).find(' '));
    EXPECT_TRUE(endpoint(post + password(std::string(", ") + key)).contains("a password has no \"" + name + "\""))
        << key;
  }
  EXPECT_TRUE(endpoint(post + password(", type = \"int\"")).contains("6:43 a password is text, and the type of"));
  for (const char* from : {"query.word", "path.id", "header.x-word", "cookie.word", "body", "upload.word"}) {
    EXPECT_TRUE(endpoint(post + password(", from = \"" + std::string(from) + "\""))
                    .contains("6:43 a password comes from a field of the body | write from = \"body.NAME\""))
        << from;
  }
  EXPECT_TRUE(endpoint(post + "params.id = { hash = \"argon2id\" }\n").contains("6:22 a password comes from a field"));
  EXPECT_TRUE(endpoint("get = \"SELECT :id, :word\"\n" + post + password("")).contains("7:24 GET takes no password"));
  const std::string remove = "delete = \"DELETE FROM a WHERE b = :word\"\n";
  EXPECT_TRUE(endpoint(remove + password("")).contains("6:24 a password comes from a field of the body, and DELETE"));
  EXPECT_EQ(endpoint(remove + password(", from = \"body.word\"")), "");

  const std::string column = "columns.word = { hash = \"argon2id\" }\n";
  EXPECT_EQ(endpoint("[endpoint.post]\ntable = \"a\"\n" + column), "");
  EXPECT_TRUE(
      endpoint("[endpoint.put]\ntable = \"a\"\nexisting = \"SELECT b FROM a\"\ncolumns.b = { key = true }\n" + column)
          .contains("9:25 a set takes no passwords"));
  EXPECT_TRUE(endpoint("[endpoint.post]\ntable = \"a\"\ncolumns.word = { hash = \"argon2id\", key = true }\n")
                  .contains("7:25 a password is not a key"));
}

TEST(Errors, AKeyThatThePathAndTheBodyBothName) {
  const auto endpoint = [](std::string_view lines) {
    return messages_of("[database.m]\nurl = \"sqlite:a\"\n[[endpoint]]\npath = \"/a/{b:int}\"\n" + std::string(lines));
  };
  constexpr std::string_view refused =
      "the key \"b\" has no \"from\", and the path has a parameter of that name | add from = \"path.b\", or from = "
      "\"body.b\" if the body says which row is meant\n";
  for (const char* method : {"patch", "put", "delete"}) {
    const std::string table = "[endpoint." + std::string(method) + "]\ntable = \"a\"\n";
    EXPECT_EQ(endpoint(table + "columns.b = { key = true }\n"), "7:9 " + std::string(refused)) << method;
    for (const char* from : {"path.b", "body.b", "query.b"}) {
      EXPECT_EQ(endpoint(table + "columns.b = { key = true, from = \"" + from + "\" }\n"), "") << method << from;
    }
    EXPECT_EQ(endpoint(table + "columns.c = { key = true }\n"), "") << method;
  }
  EXPECT_TRUE(endpoint("[endpoint.put]\ntable = \"a\"\nexisting = \"SELECT b FROM a\"\ncolumns.b = { key = true }\n")
                  .contains(refused));
  EXPECT_TRUE(endpoint("[endpoint.patch]\ntable = \"a\"\nset = true\ncolumns.b = { key = true }\n").contains(refused));
  EXPECT_EQ(endpoint("[endpoint.patch]\ntable = \"a\"\ncolumns.c = { key = true }\ncolumns.b = {}\n"), "");
  EXPECT_EQ(endpoint("[endpoint.post]\ntable = \"a\"\ncolumns.b = { key = true }\n"), "");
}

TEST(Errors, WhatCannotBeReadInParallel) {
  const auto endpoint = [](const std::string& lines, const std::string& url = "postgres://host/db",
                           const std::string& path = "/a") {
    return messages_of("[[endpoint]]\npath = \"" + path + "\"\n" + lines + "[database.m]\nurl = \"" + url + "\"\n");
  };
  const std::string get = "get = \"SELECT 1\"\n";
  EXPECT_EQ(endpoint(get + "parallel = 4\n"), "");
  EXPECT_EQ(endpoint(get + "parallel = { connections = 7, ordered = false }\n"), "");
  EXPECT_TRUE(endpoint(get + "parallel = 0\n").starts_with("4:12 ")) << endpoint(get + "parallel = 0\n");
  EXPECT_TRUE(endpoint(get + "parallel = 8\n").starts_with("4:12 [database.m] has pool = 8 connections"));
  EXPECT_TRUE(endpoint(get + "parallel = 2\n", "sqlite:a").starts_with("4:12 \"parallel\" is for PostgreSQL"));
  EXPECT_TRUE(
      endpoint("parallel = 2\npost = \"INSERT INTO a VALUES (1)\"\n").starts_with("3:12 \"parallel\" is for \"get\""));
  EXPECT_TRUE(endpoint(get + "parallel = 2\nreturns = \"object\"\n").starts_with("4:12 \"parallel\" is for many rows"));
  EXPECT_EQ(endpoint(get + "parallel = 2\nparams.ctid_to = \"int\"\n"), "5:8 :ctid_to is set by \"parallel\"\n");
  EXPECT_EQ(endpoint(get + "parallel = 2\n", "postgres://host/db", "/{ctid_from}"),
            "2:8 :ctid_from is set by \"parallel\"\n");
  EXPECT_EQ(endpoint(get + "params.ctid_to = \"int\"\n"), "");
}

TEST(Errors, ATableWhoseKeyIsNoNameOfAParameter) {
  EXPECT_EQ(messages_of("[[endpoint]]\npath = \"/films/{id}\"\nget = \"SELECT 1\"\n[database.m]\nurl = \"sqlite:a\"\n"
                        "[[resident]]\nname = \"films\"\nquery = \"SELECT 1\"\nkey = \"film:id\"\n"),
            "7:8 an [[endpoint]] has the path \"/films/{id}\" | it is in line 2 already\n");
}

TEST(Errors, EndpointsThatTakeTheSamePaths) {
  const auto two = [](const std::string& one, const std::string& other) {
    return messages_of("[[endpoint]]\npath = \"" + one + "\"\nget = \"SELECT 1\"\n[[endpoint]]\npath = \"" + other +
                       "\"\nget = \"SELECT 1\"\n[database.m]\nurl = \"sqlite:a\"\n");
  };
  const auto taken = [](const std::string& path) {
    return "5:8 another [[endpoint]] has the path \"" + path + "\" | it is in line 2 already\n";
  };
  EXPECT_EQ(two("/a/{b}", "/a/{c}"), taken("/a/{b}"));
  EXPECT_EQ(two("/a/{b:int}/c", "/a/{x:int}/c"), taken("/a/{b:int}/c"));
  EXPECT_EQ(two("/a/{b...}", "/a/{rest...}"), taken("/a/{b...}"));
  // The more specific pattern is matched first, and some paths match only the other one.
  EXPECT_EQ(two("/a/{b}", "/a/{b:int}"), "");
  EXPECT_EQ(two("/a/{b}", "/a/{b...}"), "");
  EXPECT_EQ(two("/{a}/b", "/a/{b}"), "");
}

TEST(Errors, ClaimsWithoutATokenInFront) {
  const std::string policy = "[policy.auth]\ntype = \"jwt\"\njwks = \"k\"\n";
  const auto endpoint = [&](const std::string& lines) {
    return messages_of("[[endpoint]]\npath = \"/a\"\nget = \"SELECT 1\"\n" + lines +
                       "[database.m]\nurl = \"sqlite:a\"\n" + policy);
  };
  const std::string none =
      "there are no claims without a policy of type \"jwt\", \"api-key\" or \"basic\" in front | add use = [\"NAME\"] "
      "and [policy.NAME]\n";
  EXPECT_EQ(endpoint("params.me = { from = \"claim.sub\" }\n"), "4:22 " + none);
  EXPECT_EQ(endpoint("use = [\"auth\"]\nparams.me = { from = \"claim.sub\" }\n"), "");
  EXPECT_EQ(endpoint("[endpoint.post]\ntable = \"a\"\ncolumns.me = { from = \"claim.sub\" }\n"), "6:23 " + none);
}

TEST(Errors, Changes) {
  const auto endpoint = [](const std::string& changes, const std::string& url, const std::string& more = "",
                           const std::string& path = "/a") {
    return messages_of("[[endpoint]]\npath = \"" + path + "\"\nchanges = { " + changes + " }\n[database.m]\nurl = \"" +
                       url + "\"\n" + more);
  };
  const std::string postgres = "postgres://a/b";
  const std::string sqlite = "sqlite:a";
  const std::string writes = "[[endpoint]]\npath = \"/w\"\npost = \"INSERT INTO t VALUES (1)\"\n";
  EXPECT_EQ(endpoint("notify = \"c\"", postgres), "");
  EXPECT_EQ(endpoint("tables = [\"t\"]", sqlite, writes), "");
  const std::string hint = " | add notify = \"CHANNEL\" (PostgreSQL) or tables = [\"NAME\"] (SQLite)\n";
  EXPECT_EQ(endpoint("keep = 100", postgres), "3:11 \"changes\" has no source of events" + hint);
  EXPECT_EQ(endpoint("notify = \"c\", tables = [\"t\"]", postgres), "");
  EXPECT_EQ(endpoint("notify = \"c\", tables = [\"t\"]", sqlite, writes), "");
  EXPECT_EQ(endpoint("notify = \"c\"", sqlite, writes),
            "3:22 \"notify\" is for PostgreSQL, and this database is SQLite | add tables = [\"NAME\"]\n");
  EXPECT_EQ(endpoint("tables = [\"t\"]", postgres),
            "3:23 \"tables\" is for SQLite, and this database is PostgreSQL | add notify = \"CHANNEL\"\n");
  EXPECT_EQ(endpoint("tables = [\"t\"]", sqlite),
            "3:23 no endpoint writes to this database, so there are no changes | commits of other programs are not "
            "noticed\n");
  EXPECT_EQ(
      endpoint("notify = \"c\"", postgres, "prepared = false\n"),
      "3:22 LISTEN needs a session of its own, but \"prepared = false\" is for a pooler, which shares sessions\n");
  EXPECT_EQ(endpoint("notify = \"" + std::string(64, 'c') + "\"", postgres),
            "3:22 endpoint.changes.notify must not be longer than 63 bytes\n");
  EXPECT_EQ(endpoint("notify = \"c\"", postgres, "", "/a/{rest...}"),
            "3:11 a path that takes all that follows has no room for \"/changes\"\n");
  const std::string at = "[[endpoint]]\nget = \"SELECT 1\"\npath = ";
  EXPECT_EQ(endpoint("notify = \"c\"", postgres, at + "\"/a/changes\"\n"),
            "8:8 another [[endpoint]] has the path \"/a/changes\" | it is in line 3 already\n");
  EXPECT_EQ(endpoint("notify = \"c\"", postgres, at + "\"/a/{b}\"\n"), "") << "the literal goes first";
  EXPECT_EQ(messages_of(at + "\"/a/changes\"\n[[endpoint]]\npath = \"/a\"\nchanges = { notify = \"c\" }\n"
                             "[database.m]\nurl = \"postgres://a/b\"\n"),
            "6:11 another [[endpoint]] has the path \"/a/changes\" | it is in line 3 already\n");
}

TEST(Errors, OpenApi) {
  const Options options = options_of(serves + "[openapi]\ntitle = \"Films\"\n");
  ASSERT_TRUE(options.openapi);
  EXPECT_EQ(options.openapi->path.value, "/openapi.json");
  EXPECT_EQ(options.openapi->title.value, "Films");
  EXPECT_FALSE(options_of(serves).openapi);
  EXPECT_EQ(messages_of(serves + "[openapi]\ntitle = \"\"\n"), "7:9 openapi.title must not be empty\n");
  EXPECT_EQ(messages_of(serves + "[openapi]\nuse = [\"a\"]\n"), "7:8 there is no [policy.a]\n");
  EXPECT_EQ(messages_of(serves + "[openapi]\npath = \"/\"\n"),
            "7:8 an [[endpoint]] has the path \"/\" | it is in line 2 already\n");
  EXPECT_EQ(messages_of(serves + "[openapi]\npath = \"/{a}\"\n"), "7:8 the path of [openapi] has no parameters\n");
  EXPECT_EQ(messages_of(serves + "[openapi]\nexplorer = \"/{a}\"\n"),
            "7:12 the explorer of [openapi] has no parameters\n");
  EXPECT_EQ(messages_of(serves + "[openapi]\nexplorer = \"/\"\n"),
            "7:12 an [[endpoint]] has the path \"/\" | it is in line 2 already\n");
  EXPECT_EQ(messages_of(serves + "[[endpoint]]\npath = \"/openapi.json\"\nget = \"SELECT 1\"\n[openapi]\n"),
            "9:1 an [[endpoint]] has the path \"/openapi.json\" | it is in line 7 already\n");
}

const std::string three_policies = [] {
  std::string text;
  for (const char* name : {"a", "b", "c"}) {
    text += "[policy." + std::string(name) + "]\ntype = \"ip\"\nallow = [\"::1\"]\n";
  }
  return text;
}();

TEST(Load, DefaultsStandBeforeEveryUse) {
  const Options options = options_of(three_policies + R"toml(
[defaults]
use = ["a", "b"]
[database.main]
url = "sqlite:a.db"
[[endpoint]]
path = "/endpoint"
get = "SELECT 1"
use = ["c", "a"]
[[endpoint]]
path = "/public"
get = "SELECT 1"
public = true
[[endpoint]]
path = "/own"
get = "SELECT 1"
public = true
use = ["b"]
[[endpoint]]
path = "/not-public"
get = "SELECT 1"
public = false
[[resident]]
name = "resident"
query = "SELECT 1 AS id"
[[resident]]
name = "keys"
query = "SELECT 1 AS id"
key = "id"
refresh.every = "1s"
serve = false
[policy.keys]
type = "api-key"
table = "keys"
[[files]]
path = "/files"
root = "r"
[[websocket]]
path = "/websocket"
handler = "echo"
[[route]]
path = "/route"
respond = 200
[batch]
[openapi]
)toml");
  const auto names = [](const std::vector<Located<std::string>>& use) {
    std::string all;
    for (const auto& name : use) all += name.value;
    return all;
  };
  EXPECT_EQ(names(options.endpoints[0].use), "abc");
  EXPECT_EQ(names(options.endpoints[1].use), "");
  EXPECT_EQ(names(options.endpoints[2].use), "b");
  EXPECT_EQ(names(options.endpoints[3].use), "ab");
  EXPECT_EQ(names(options.residents[0].use), "ab");
  EXPECT_EQ(names(options.residents[1].use), "") << "it has no path";
  EXPECT_EQ(names(options.files[0].use), "ab");
  EXPECT_EQ(names(options.websockets[0].use), "ab");
  EXPECT_EQ(names(options.routes[0].use), "ab");
  EXPECT_EQ(names(options.batch->use), "ab");
  EXPECT_EQ(names(options.openapi->use), "ab");
}

TEST(Errors, Defaults) {
  const std::string endpoints = "[[endpoint]]\npath = \"/x\"\nget = \"SELECT 1\"\npublic = true\n" + serves;
  EXPECT_EQ(messages_of(endpoints), "");
  const std::string hidden = "[[resident]]\nname = \"r\"\nquery = \"SELECT 1\"\nserve = false\npublic = true\n";
  EXPECT_EQ(messages_of(hidden + serves).substr(0, 46), "5:10 \"public\" is for tables that have a path\n");
  EXPECT_EQ(messages_of(endpoints + three_policies + "[defaults]\nuse = [\"a\"]\n"), "");
  // Each error is reported once, although two endpoints have it.
  EXPECT_EQ(messages_of("[defaults]\nuse = [\"d\"]\n[[endpoint]]\npath = \"/x\"\nget = \"SELECT 1\"\n" + serves),
            "2:8 there is no [policy.d]\n");
  EXPECT_EQ(messages_of("[defaults]\nuse = [\"a\", \"a\"]\n" + serves + three_policies), "2:13 \"a\" comes twice\n");
  EXPECT_EQ(messages_of("[defaults]\npublic = true\n" + serves).substr(0, 4), "2:1 ");
}

TEST(Errors, RetriesOfSqlite) {
  const auto endpoint = [](const std::string& url, const std::string& retries) {
    return messages_of("[database.m]\nurl = \"" + url +
                       "\"\n[[endpoint]]\npath = \"/\"\n[endpoint.post]\nsql = \"INSERT\"\n" + retries);
  };
  EXPECT_EQ(endpoint("sqlite:a", ""), "");
  EXPECT_EQ(endpoint("sqlite:a", "retries = 0\n"), "");
  EXPECT_EQ(endpoint("sqlite:a", "retries = 3\n"),
            "7:11 \"retries\" is for PostgreSQL: SQLite has one writer at a time; others wait\n");
  EXPECT_EQ(endpoint("postgres://a", "retries = 3\n"), "");
}

TEST(Errors, Batch) {
  const Options options = options_of(serves + "[batch]\ncalls = 7\n");
  ASSERT_TRUE(options.batch);
  EXPECT_EQ(options.batch->path.value, "/batch");
  EXPECT_EQ(options.batch->calls, 7u);
  EXPECT_EQ(options.batch->database.value, options.endpoints[0].database.value);
  EXPECT_TRUE(options.writes_to(options.batch->database.value));
  EXPECT_EQ(messages_of(serves + "[batch]\ndatabase = \"b\"\n"), "7:12 there is no [database.b]\n");
  EXPECT_EQ(messages_of(serves + "[batch]\nuse = [\"a\"]\n"), "7:8 there is no [policy.a]\n");
  EXPECT_EQ(messages_of(serves + "[batch]\npath = \"/\"\n"),
            "7:8 an [[endpoint]] has the path \"/\" | it is in line 2 already\n");
  EXPECT_EQ(messages_of(serves + "[batch]\npath = \"/{a}\"\n"), "7:8 the path of [batch] has no parameters\n");
  EXPECT_EQ(messages_of(serves + "[batch]\nretries = 0\n"), "");
  EXPECT_EQ(messages_of(serves + "[batch]\nretries = 3\n"),
            "7:11 \"retries\" is for PostgreSQL: SQLite has one writer at a time; others wait\n");
  const std::string keys = "[policy.k]\ntype = \"api-key\"\nheader = \"X-Key\"\nkeys.a = \"0123456789abcdef\"\n";
  const std::string guarded =
      "[[endpoint]]\npath = \"/\"\nget = \"SELECT 1\"\nuse = [\"k\"]\n[database.main]\nurl = \"sqlite:a.db\"\n"
      "[batch]\nuse = [\"k\"]\n" +
      keys;
  EXPECT_EQ(
      messages_of(guarded),
      "8:8 [policy.k] removes the credentials of a batch, but its calls of / need them | leave it out of [batch]: the "
      "policies of each call apply; or add pass = true to the policy\n");
  EXPECT_EQ(messages_of(guarded + "pass = true\n"), "");
  EXPECT_EQ(messages_of(serves + "[batch]\nuse = [\"k\"]\n" + keys), "");
  const std::string tokens = guarded.substr(0, guarded.size() - keys.size()) +
                             "[policy.k]\ntype = \"jwt\"\nsecret = \"0123456789abcdef0123456789abcdef\"\n";
  EXPECT_EQ(messages_of(tokens), "");
  EXPECT_EQ(messages_of(tokens + "from = [\"query.t\"]\n"), "");
  EXPECT_TRUE(messages_of(tokens + "from = [\"cookie.t\"]\n").contains("removes the credentials of a batch"));
  EXPECT_EQ(messages_of(tokens + "from = [\"cookie.t\"]\npass = true\n"), "");
  EXPECT_EQ(messages_of("[[files]]\npath = \"/\"\nroot = \".\"\n[batch]\n"),
            "4:1 [batch] needs a database | add [database.main]\n");
}

TEST(Errors, Tls) {
  auto server = [](const std::string& listen, const std::string& tls) {
    return messages_of("[server]\nlisten = [" + listen + "]\n" + tls + serves);
  };
  const std::string tls = "[server.tls]\ncert = \"a\"\nkey = \"b\"\n";
  EXPECT_EQ(server("\"*:1\"", tls), "");
  EXPECT_EQ(
      server("\"https://*:1\", \"http://*:2\", \"http://unix:/a\"", tls + "redirect = true\nredirect_port = 443\n"),
      "");
  EXPECT_EQ(server("\"http://*:1\"", ""), "");
  EXPECT_EQ(server("\"https://*:1\"", ""), "2:11 there is no certificate for this address | add [server.tls]\n");
  EXPECT_EQ(server("\"http://*:1\"", tls), "3:1 no address of \"listen\" speaks TLS | write \"https://...\" for one\n");
  EXPECT_EQ(server("\"http://*:1\", \"https://*:1\"", tls),
            "2:25 [::]:1 is already listened on | it is in line 2 already\n");
  EXPECT_EQ(server("\"*:1\"", tls + "redirect = true\n"),
            "6:12 there is no address without TLS to redirect from | add one to \"listen\", such as "
            "\"http://*:80\"\n");
  EXPECT_EQ(server("\"*:1\"", tls + "redirect_port = 443\n"), "6:17 \"redirect_port\" is for \"redirect = true\"\n");
  EXPECT_EQ(server("\"*:1\"", tls + "client_auth = \"require\"\n"),
            "6:15 certificates of clients cannot be verified without \"client_ca\"\n");
  EXPECT_EQ(server("\"*:1\"", tls + "client_ca = \"c\"\n"),
            "6:13 \"client_ca\" is used only with \"client_auth\" | add client_auth = \"require\"\n");
  EXPECT_EQ(server("\"*:1\"", tls + "client_ca = \"c\"\nclient_auth = \"optional\"\n"), "");
  EXPECT_EQ(server("\"*:1\"", "[server.tls]\n"),
            "3:1 [server.tls] needs the key \"cert\"\n3:1 [server.tls] needs the key \"key\"\n");
  EXPECT_EQ(server("\"*:1\"", tls + "[[server.tls.certificate]]\ncert = \"a\"\n"),
            "6:1 [[server.tls.certificate]] needs the key \"key\"\n");
  EXPECT_EQ(server("\"*:1\"", tls + "min_version = \"1.1\"\n").substr(0, 5), "6:15 ");
}

TEST(Errors, Parameters) {
  auto params = [](const std::string& lines) {
    return messages_of("[[endpoint]]\npath = \"/{p}/{n:int}\"\nget = \"SELECT 1\"\n[endpoint.params]\n" + lines +
                       "\n[database.m]\nurl = \"sqlite:a\"\n");
  };
  EXPECT_EQ(params("p = \"text\"\nn = \"int\"\na = \"bool\""), "");
  EXPECT_EQ(params("p.default = 1"), "5:13 {p} is in the path: its default is never used\n");
  EXPECT_EQ(params("p.from = \"path.p\""), "");
  EXPECT_EQ(params("p.from = \"query.p\""),
            "5:10 {p} is in the path: its value there is never used | give one of them another name\n");
  EXPECT_EQ(params("p.required = true"), "5:14 {p} is in the path: it is never missing\n");
  EXPECT_EQ(params("n = \"text\""), "5:5 the path says {n:int}\n");
  EXPECT_EQ(params("a = { default = 1, required = true }"),
            "5:31 a parameter with a default is never missing | remove \"required\" or \"default\"\n");
  for (std::string good :
       {"int\", default = 5", "int\", default = \"-5\"", "real\", default = 5", "real\", default = 0.5",
        "bool\", default = true", "bool\", default = 1", "text\", default = 5", "text\", default = \"\""}) {
    EXPECT_EQ(params("a = { type = \"" + good + " }"), "");
  }
  for (std::string bad : {"int\", default = 0.5", "int\", default = \"five\"", "real\", default = \"x\"",
                          "bool\", default = 2", "int\", default = \"\""}) {
    EXPECT_NE(params("a = { type = \"" + bad + " }").find("this does not fit the type of \"a\""), std::string::npos)
        << bad;
  }
  EXPECT_EQ(params("a = { type = \"int\", default = [1] }"),
            "5:31 endpoint.params.a.default must be a string, a number or a boolean, not a list\n");
}

TEST(Environment, ReplacesInEveryString) {
  Options options = options_of(
      "[server]\nlisten = [\"${HOST}\"]\ncores = \"${CORES}\"\nserver_header = \"a ${NONE:-b c} $1 $$ $${x}\"\n"
      "grace = \"${CORES}s\"\nbody_limit = \"${CORES}KiB\"\naccess_log = \"${EMPTY:-stdout}\"\n"
      "connections = \"${NONE:-7}\"\n" +
      serves + "prepared = \"${NONE:-true}\"\n");
  EXPECT_EQ(options.server.listen[0].value, "127.0.0.1:9000");
  EXPECT_EQ(options.server.cores, 4u);
  EXPECT_EQ(options.server.server_header.value, "a b c $1 $$ ${x}");
  EXPECT_EQ(options.server.grace, 4s);
  EXPECT_EQ(options.server.body_limit, 4_KiB);
  EXPECT_EQ(options.server.access_log.value, "stdout");
  EXPECT_EQ(options.server.connections, 7u);
}

TEST(Environment, Errors) {
  EXPECT_EQ(errors_of("[server]\nserver_header = \"a ${NONE}\"\n" + serves),
            "a.toml:2:20: error: the environment variable NONE is not set\n"
            "  2 | server_header = \"*********\"\n"
            "    |                    ^\n"
            "    = ${NONE:-default} gives it a default\n");
  for (std::string bad : {"${", "${}", "${A B}", "${1}", "${A", "${A-b}", "${:-b}"}) {
    EXPECT_EQ(messages_of("[server]\nserver_header = \"a " + bad + "\"\n" + serves),
              "2:20 ${ must be followed by a name and }, as in ${NAME}, ${NAME:-default} or ${file:PATH} | $${ stands "
              "for ${ itself\n")
        << bad;
  }
  // One error for each mistake.
  EXPECT_EQ(messages_of("[server]\ncores = \"${NONE}\"\nlisten = [\"${NONE}\"]\n" + serves),
            "2:10 the environment variable NONE is not set | ${NONE:-default} gives it a default\n"
            "3:12 the environment variable NONE is not set | ${NONE:-default} gives it a default\n");
  // No message contains a value from the environment.
  EXPECT_EQ(errors_of("[server]\ngrace = \"${SECRET}\"\nbody_limit = \"${SECRET}\"\ncores = \"${SECRET}\"\n"
                      "access_log = \"${SECRET}\"\nlisten = [\"${SECRET}\"]\n" +
                      serves)
                .find("hunter2"),
            std::string::npos);
  EXPECT_EQ(messages_of("[server]\ncores = \"${HOST}\"\n" + serves),
            "2:9 server.cores must be an integer, not a string\n");
}

TEST(Errors, AllOfThemInTheOrderOfTheFile) {
  EXPECT_EQ(errors_of("[[files]]\nrot = \"a\"\npath = \"b\"\n[server]\ncores = -1\nfoo = 1\n"),
            "a.toml:1:1: error: [[files]] needs the key \"root\"\n"
            "  1 | [[files]]\n"
            "    | ^\n"
            "a.toml:2:1: error: unknown key \"rot\" in [[files]]\n"
            "  2 | rot = \"*\"\n"
            "    | ^\n"
            "    = did you mean \"root\"?\n"
            "a.toml:3:8: error: not a path: a path begins with /\n"
            "  3 | path = \"b\"\n"
            "    |        ^\n"
            "a.toml:5:9: error: server.cores must be at least 0\n"
            "  5 | cores = -1\n"
            "    |         ^\n"
            "a.toml:6:1: error: unknown key \"foo\" in [server]\n"
            "  6 | foo = 1\n"
            "    | ^\n"
            "    = known here: listen, hosts, same_origin, cores, io, header_limit, target_limit, field_limit, "
            "body_limit, body_memory, "
            "header_timeout, body_timeout, idle_timeout, "
            "write_timeout, slowest_client, connections, drain_delay, grace, access_log, error_log, server_header, "
            "headers, error_pages, http1, http2, "
            "http2_streams, http2_resets, trusted_proxies, client_header, proxy_protocol, tls\n");
}

// The errors of a main file and of one that it includes.
std::string errors_of(const std::string& text, const std::string& included) {
  Source source("a.toml", text);
  source.include("b.toml", included);
  const auto config = parse(std::move(source), environment);
  return config ? "" : config.error().text();
}

TEST(Include, TablesJoinAsInOneFile) {
  Source source("a.toml", serves + "[errors]\nP0001 = 422\n");
  source.include(
      "b.toml",
      "[database.b]\nurl = \"sqlite:b.db\"\n[[endpoint]]\npath = \"/b\"\ndatabase = \"b\"\nget = \"SELECT 2\"\n"
      "[errors]\nP0002 = 409\n");
  source.include("c.toml", "[server]\ncores = \"${CORES}\"\n");
  const auto config = parse(std::move(source), environment);
  ASSERT_FALSE(config) << "which database \"/\" means is not clear";
  EXPECT_TRUE(config.error().text().starts_with("a.toml:1:")) << config.error().text();

  Source clear("a.toml", serves + "[errors]\nP0001 = 422\n");
  clear.include("b.toml", "[[endpoint]]\npath = \"/b\"\nget = \"SELECT 2\"\n[errors]\nP0002 = 409\n");
  clear.include("c.toml", "[server]\ncores = \"${CORES}\"\n");
  const auto joined = parse(std::move(clear), environment);
  ASSERT_TRUE(joined) << joined.error().text();
  EXPECT_EQ(joined->options.endpoints[1].path.value, "/b");
  EXPECT_EQ(joined->options.endpoints[1].path.position, (Position{2, 8, 1}));
  EXPECT_EQ(joined->options.errors.size(), 2u);
  EXPECT_EQ(joined->options.server.cores.value, 4u);
}

TEST(Include, ErrorsNameTheFileInWhichTheTextStands) {
  EXPECT_EQ(errors_of(serves, "[[endpoint]]\npath = \"/b\"\ngett = \"SELECT 2\"\n[policy.p]\ntype = \"${NO}\"\n"),
            "b.toml:3:1: error: unknown key \"gett\" in [[endpoint]]\n"
            "  3 | gett = \"********\"\n"
            "    | ^\n"
            "    = did you mean \"get\"?\n"
            "b.toml:5:9: error: the environment variable NO is not set\n"
            "  5 | type = \"${NO}\"\n"
            "    |         ^\n"
            "    = ${NO:-default} gives it a default\n");
  EXPECT_EQ(errors_of(serves, "\n\n[[endpoint]]\npath = \"/\"\nget = \"SELECT 1\"\n"),
            "b.toml:4:8: error: another [[endpoint]] has the path \"/\"\n"
            "  4 | path = \"/\"\n"
            "    |        ^\n"
            "    = it is in line 2 of a.toml already\n");
  EXPECT_EQ(errors_of(serves, "a = \n"),
            "b.toml:1:5: error: expected value, saw '\\n', while parsing key-value pair\n");
}

TEST(Include, ATableStandsInOneFile) {
  EXPECT_EQ(
      errors_of("[server]\ncores = 1\n" + serves, "[server]\nhttp2 = false\n[database.main]\nurl = \"sqlite:b.db\"\n"),
      "b.toml:1:2: error: \"server\" comes twice\n"
      "  1 | [server]\n"
      "    |  ^\n"
      "    = it is in line 1 of a.toml already\n"
      "b.toml:3:11: error: \"database.main\" comes twice\n"
      "  3 | [database.main]\n"
      "    |           ^\n"
      "    = it is in line 6 of a.toml already\n");
  EXPECT_EQ(errors_of(serves, "include = [\"c.toml\"]\n"),
            "b.toml:1:1: error: an included file cannot include others\n"
            "  1 | include = [\"c.toml\"]\n"
            "    | ^\n"
            "    = name them in a.toml\n");
}

TEST(Secrets, StandInStringsAndAreHidden) {
  const auto read = [](std::string_view path, Position) -> std::expected<std::string, std::string> {
    if (path == "db") return "hunter2";
    return std::unexpected("cannot be read");
  };
  const auto config = parse(Source("a.toml",
                                   "[database.main]\nurl = \"postgres://u:${file:db}@h/d\"\n"
                                   "[[endpoint]]\npath = \"/\"\nget = \"SELECT '${file:-no}', '${file:db}'\"\n"),
                            environment, read);
  ASSERT_TRUE(config) << config.error().text();
  EXPECT_EQ(config->options.databases[0].value.url.value, "postgres://u:hunter2@h/d");
  EXPECT_EQ(config->options.endpoints[0].get.value, "SELECT 'no', 'hunter2'") << "a variable may be called `file`";
  EXPECT_EQ(config->source.render({{2, 1}, "hunter2 is wrong", "is it hunter2?"}),
            "a.toml:2:1: error: *** is wrong\n"
            "  2 | url = \"***************************\"\n"
            "    | ^\n"
            "    = is it ***?\n");
  const auto missing =
      parse(Source("a.toml", "[server]\nlisten = [\"${file:a}\", \"${file:db}\"]\n"), environment, read);
  ASSERT_FALSE(missing);
  EXPECT_TRUE(
      missing.error().text().starts_with("a.toml:2:12: error: a: cannot be read\n"
                                         "  2 | listen = [\"${file:a}\", \"${file:db}\"]\n"
                                         "    |            ^\n"
                                         "a.toml:2:24: error: "))
      << missing.error().text();
}

class Files : public testing::Test {
 protected:
  Files() : folder_(std::filesystem::temp_directory_path() / ("sluice-config-" + std::to_string(getpid()))) {
    std::filesystem::create_directories(folder_ / "public");
  }
  ~Files() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& text) {
    std::string path = folder_ / "a.toml";
    std::ofstream(path) << text;
    return path;
  }
  std::string errors_in(const std::string& path) {
    auto config = load(path, environment);
    return config ? "" : config.error().text();
  }

  std::filesystem::path folder_;
};

TEST_F(Files, PathsAreTakenFromTheFolderOfTheFile) {
  auto config = load(write("[[files]]\npath = \"/\"\nroot = \"public\"\n"
                           "[database.a]\nurl = \"sqlite:a.db?mode=ro\"\n[database.b]\nurl = \"sqlite:/b.db\"\n"
                           "[database.c]\nurl = \"sqlite::memory:\"\n[database.d]\nurl = \"postgres://h/d\"\n"),
                     environment);
  ASSERT_TRUE(config) << config.error().text();
  EXPECT_EQ(config->options.files[0].root.value, folder_ / "public");
  EXPECT_EQ(config->options.databases[0].value.url.value, "sqlite:" + (folder_ / "a.db?mode=ro").string());
  EXPECT_EQ(config->options.databases[1].value.url.value, "sqlite:/b.db");
  EXPECT_EQ(config->options.databases[2].value.url.value, "sqlite::memory:");
  EXPECT_EQ(config->options.databases[3].value.url.value, "postgres://h/d");
  EXPECT_EQ(config->options.databases[3].value.folder, folder_) << "for the files that it names";
}

TEST_F(Files, AreIncludedInTheOrderOfTheirNames) {
  std::filesystem::create_directories(folder_ / "conf.d" / "static");
  const auto one = [&](const std::string& name) {
    std::ofstream(folder_ / "conf.d" / (name + ".toml"))
        << "[[files]]\npath = \"/" << name << "\"\nroot = \"static\"\n";
  };
  for (const char* name : {"b", "a", "c"}) one(name);
  std::ofstream(folder_ / "conf.d" / ".hidden.toml") << "wrong";
  const auto config = load(write("include = [\"conf.d/c.toml\", \"conf.d/*.toml\", \"none/*.toml\"]\n"), environment);
  ASSERT_TRUE(config) << config.error().text();
  std::string paths;
  for (const auto& files : config->options.files) {
    paths += files.path.value;
    EXPECT_EQ(files.root.value, folder_ / "conf.d" / "static") << "it is relative to the file in which it stands";
  }
  EXPECT_EQ(paths, "/c/a/b");

  const std::string path = write("include = [\"none.toml\"]\n[[files]]\npath = \"/\"\nroot = \"none\"\n");
  EXPECT_EQ(errors_in(path), path + ":1:12: error: " + (folder_ / "none.toml").string() +
                                 " cannot be read: No such file or directory\n"
                                 "  1 | include = [\"none.toml\"]\n"
                                 "    |            ^\n");
}

TEST_F(Files, OfSecrets) {
  const auto secret = [&](const std::string& text) {
    std::ofstream(folder_ / "secret") << text;
    std::filesystem::permissions(folder_ / "secret", std::filesystem::perms::owner_all);
  };
  secret("hunter2\n\n");
  const std::string path = write(
      "[[files]]\npath = \"/\"\nroot = \"public\"\n"
      "[database.a]\nurl = \"postgres://u:${file:secret}@h/d\"\n");
  const auto config = load(path, environment);
  ASSERT_TRUE(config) << config.error().text();
  EXPECT_EQ(config->options.databases[0].value.url.value, "postgres://u:hunter2\n@h/d");
  EXPECT_TRUE(config->warnings.empty());

  std::filesystem::permissions(folder_ / "secret", std::filesystem::perms(0644));
  const auto open = load(path, environment);
  ASSERT_TRUE(open);
  ASSERT_EQ(open->warnings.size(), 1u);
  EXPECT_EQ(open->warnings[0],
            path + ":5:7: every user may read the secret in " + (folder_ / "secret").string() + "; chmod o-r helps");

  secret(std::string((64 << 10) + 1, 'x'));
  EXPECT_TRUE(errors_in(path).starts_with(path + ":5:21: error: secret: is larger than 65536 bytes\n"));
  std::filesystem::remove(folder_ / "secret");
  EXPECT_TRUE(errors_in(path).starts_with(path + ":5:21: error: secret: cannot be read: No such file or directory\n"));
}

TEST_F(Files, PathsOfCertificatesToo) {
  const auto config = load(write("[server]\nlisten = [\"https://unix:a.sock\"]\n"
                                 "[server.tls]\ncert = \"a.pem\"\nkey = \"/a.key\"\n"
                                 "client_ca = \"ca.pem\"\nclient_auth = \"require\"\n"
                                 "[[server.tls.certificate]]\ncert = \"b.pem\"\nkey = \"b/b.key\"\n"
                                 "[[files]]\npath = \"/\"\nroot = \"public\"\n"),
                           environment);
  ASSERT_TRUE(config) << config.error().text();
  const ServerOptions& server = config->options.server;
  EXPECT_EQ(server.listen[0].value, "https://unix:" + (folder_ / "a.sock").string());
  EXPECT_EQ(server.tls->cert.value, folder_ / "a.pem");
  EXPECT_EQ(server.tls->key.value, "/a.key");
  EXPECT_EQ(server.tls->client_ca.value, folder_ / "ca.pem");
  EXPECT_EQ(server.tls->certificates[0].cert.value, folder_ / "b.pem");
  EXPECT_EQ(server.tls->certificates[0].key.value, folder_ / "b/b.key");
}

TEST_F(Files, FoldersMustExist) {
  std::string path = write("[[files]]\npath = \"/\"\nroot = \"publik\"\n[[files]]\npath = \"/a\"\nroot = \"a.toml\"\n");
  EXPECT_EQ(errors_in(path), path +
                                 ":3:8: error: the folder cannot be served: No such file or directory\n"
                                 "  3 | root = \"publik\"\n"
                                 "    |        ^\n"
                                 "    = it would be " +
                                 (folder_ / "publik").string() + "\n" + path +
                                 ":6:8: error: the folder cannot be served: it is not a folder\n"
                                 "  6 | root = \"a.toml\"\n"
                                 "    |        ^\n"
                                 "    = it would be " +
                                 path + "\n");
}

TEST_F(Files, NoWayAroundPolicies) {
  std::filesystem::create_directories(folder_ / "public/private/deep");
  std::filesystem::create_directory_symlink("public/private", folder_ / "link");
  const auto errors = [&](const std::vector<std::array<std::string, 3>>& all) {
    std::string text = "[policy.a]\ntype = \"jwt\"\njwks = \"k\"\n";
    for (const auto& [path, root, use] : all) {
      text += "[[files]]\npath = \"" + path + "\"\nroot = \"" + root + "\"\nuse = [" + use + "]\n";
    }
    const auto config = load(write(text), environment);
    std::string found;
    if (!config) {
      for (const Diagnostic& one : config.error().list) found += std::to_string(one.position.line) + " " + one.message;
    }
    return found;
  };
  const std::string a = "\"a\"";
  EXPECT_EQ(errors({{"/", "public", ""}, {"/private", "public/private", a}}), "");
  EXPECT_EQ(errors({{"/", "public", ""}, {"/private", "link", a}}), "");
  EXPECT_EQ(errors({{"/x", "public", ""}, {"/x/private", "public/private/../private", a}}), "");
  EXPECT_EQ(errors({{"/", "public", ""}, {"/private", "public/private", a}, {"/y", "public/private", a}}), "");
  EXPECT_EQ(errors({{"/", "public", a}, {"/private", "public/private", ""}}), "") << "opened on purpose";
  EXPECT_EQ(errors({{"/", "public", a}, {"/y", "public/private", a}}), "");
  EXPECT_EQ(errors({{"/", "public", ""}, {"/y", "public/private", a}}),
            "10 the files in line 6 serve this folder too, at /private, without the policies that stand here");
  EXPECT_EQ(errors({{"/", "public", ""}, {"/y", "link", a}}),
            "10 the files in line 6 serve this folder too, at /private, without the policies that stand here");
  EXPECT_EQ(errors({{"/x", "public", ""}, {"/y", "public/private/deep", a}}),
            "10 the files in line 6 serve this folder too, at /x/private/deep, without the policies that stand here");
  EXPECT_EQ(errors({{"/", "public", ""}, {"/y", "public", a}}),
            "10 the files in line 6 serve this folder too, at /, without the policies that stand here");
}

TEST_F(Files, TheFallbackMustExist) {
  EXPECT_EQ(errors_in(write("[[files]]\npath = \"/\"\nroot = \"public\"\nfallback = \"app.html\"\n"))
                .substr(folder_.string().size()),
            "/a.toml:4:12: error: there is no such file\n"
            "  4 | fallback = \"app.html\"\n"
            "    |            ^\n"
            "    = it would be " +
                (folder_ / "public/app.html").string() + "\n");
  std::ofstream(folder_ / "public/app.html") << "x";
  EXPECT_TRUE(load(write("[[files]]\npath = \"/\"\nroot = \"public\"\nfallback = \"app.html\"\n"), environment));
  for (const char* path : {"", "/app.html", "../app.html", "a/../app.html", "a//b", "./app.html", "a/"}) {
    EXPECT_NE(messages_of("[[files]]\npath = \"/\"\nroot = \"public\"\nfallback = \"" + std::string(path) + "\"\n"), "")
        << path;
  }
}

TEST_F(Files, CannotBeRead) {
  std::string folder = folder_;
  EXPECT_EQ(errors_in(folder + "/none.toml"),
            folder + "/none.toml: error: cannot be read: No such file or directory\n");
  EXPECT_EQ(errors_in(folder), folder + ": error: cannot be read: Is a directory\n");
  EXPECT_EQ(errors_in(""), ": error: cannot be read: No such file or directory\n");
  std::string large = write(std::string((4 << 20) + 1, '#'));
  EXPECT_EQ(errors_in(large), large + ": error: is larger than 4194304 bytes\n");
}

TEST(ProcessEnvironment, IsAsked) {
  ASSERT_EQ(setenv("SLUICE_CONFIG_TEST", "yes", 1), 0);
  EXPECT_EQ(process_environment("SLUICE_CONFIG_TEST"), "yes");
  unsetenv("SLUICE_CONFIG_TEST");
  EXPECT_EQ(process_environment("SLUICE_CONFIG_TEST"), std::nullopt);
}

}  // namespace
}  // namespace sluice::app::config
