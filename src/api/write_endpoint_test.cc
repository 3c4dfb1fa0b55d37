#include "api/write_endpoint.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "api/table_sql.h"
#include "api/writing_fixture.h"

namespace sluice::api {
namespace {

using testing::Body;
using testing::body_of;

class WriteEndpointTest : public ::testing::Test {
 public:
  using Step = testing::FakeDatabase::Step;

  static sql::Statement statement(std::string text, std::vector<sql::Parameter> parameters,
                                  std::vector<sql::Column> columns = {}) {
    sql::Statement made;
    made.text = std::move(text);
    made.parameters = std::move(parameters);
    made.columns = std::move(columns);
    return made;
  }
  void make(http::Method method, EndpointOptions endpoint, const MethodOptions& options,
            std::vector<sql::Statement> statements, bool updates_first = false,
            WriteEndpoint::Retries retries = WriteEndpoint::Retries::own, PasswordHasher* hasher = nullptr) {
    auto pattern = http::Pattern::parse(endpoint.path.value);
    ASSERT_TRUE(pattern);
    handler = std::make_unique<WriteEndpoint>(
        std::make_shared<const WritePlan>(method, endpoint, options, *pattern, std::move(statements), updates_first),
        database, *reactor, nullptr, std::vector<http::BlobStore*>{}, retries, hasher);
  }
  // POST of rows with a slug and a score.
  void make_insert(std::vector<sql::Column> columns = {}, MethodOptions options = {},
                   WriteEndpoint::Retries retries = WriteEndpoint::Retries::own) {
    options.sql.value = "INSERT";
    EndpointOptions endpoint;
    endpoint.path.value = "/films";
    options.sql.value = "INSERT INTO films";
    make(http::Method::post, endpoint, options,
         {statement("insert", {{"slug", {}}, {"score", sql::ParameterType::integer}}, std::move(columns))}, false,
         retries);
  }
  http::Response send(std::string_view bytes, std::string_view type = "application/json", std::size_t step = SIZE_MAX,
                      std::optional<Errc> broken = {}) {
    Body body(bytes, step, broken);
    return send_body(&body, type);
  }
  http::Response send_body(http::BodyReader* body, std::string_view type, std::string_view in_path = {}) {
    database.log.clear();
    http::Exchange exchange;
    http::Request& request = exchange.request;
    const std::vector<http::Field> fields{{"Content-Type", type}};
    request.fields = fields;
    request.body = body;
    request.path_values[0] = in_path;
    return testing::answer_of(*reactor, handler->handle(exchange));
  }
  static sql::Error error(sql::Failure failure, std::string sqlstate = {}) {
    return {failure, std::move(sqlstate), "secret words", 0};
  }

  std::shared_ptr<const sql::Type> text = [] {
    auto type = std::make_shared<sql::Type>();
    type->form = sql::Form::text;
    return type;
  }();
  std::unique_ptr<core::Reactor> reactor = core::make_epoll_reactor();
  testing::FakeDatabase database;
  std::unique_ptr<WriteEndpoint> handler;
};

TEST_F(WriteEndpointTest, EveryRowIsWrittenInOneTransaction) {
  make_insert();
  EXPECT_EQ(send(R"({"slug":"heat","score":8})").status, 201);
  EXPECT_EQ(database.log, "begin\ninsert heat 8\ncommitted\n");
  for (const std::size_t step : {1, 7, 1000}) {
    EXPECT_EQ(
        send(R"([{"slug":"a","score":1},{"slug":"b"},{"score":null,"slug":""}])", "application/json", step).status,
        201);
    EXPECT_EQ(database.log, "begin\ninsert a 1\ninsert b NULL\ninsert  NULL\ncommitted\n");
  }
  EXPECT_EQ(send("slug,score\na,1\n", "text/csv; charset=utf-8").status, 201);
  EXPECT_EQ(database.log, "begin\ninsert a 1\ncommitted\n");
}

TEST_F(WriteEndpointTest, WithoutARowAllTheRestIsDone) {
  MethodOptions options;
  options.sql.value = "INSERT INTO films";
  EndpointOptions endpoint;
  endpoint.path.value = "/films";
  make(http::Method::post, endpoint, options, {statement("delete", {}), statement("insert", {{"slug", {}}})});
  for (const auto& [bytes, type] :
       std::vector<std::pair<std::string_view, std::string_view>>{{"[]", "application/json"},
                                                                  {"slug\n", "text/csv"},
                                                                  {"\"slug\"\n", "application/csj"},
                                                                  {"\n", "application/x-ndjson"}}) {
    EXPECT_EQ(send(bytes, type).status, 204);
    EXPECT_EQ(database.log, "begin\ndelete\ncommitted\n") << type;
  }
  database.commit_error = error(sql::Failure::statement, "23503");
  EXPECT_EQ(send("[]").status, 409);
}

TEST_F(WriteEndpointTest, StatementsBeforeItTakeValuesOfOneRow) {
  MethodOptions options;
  options.sql.value = "INSERT INTO films";
  EndpointOptions endpoint;
  endpoint.path.value = "/films";
  make(http::Method::post, endpoint, options,
       {statement("delete", {{"slug", {}}}), statement("insert", {{"slug", {}}})});
  for (const char* bytes : {"[]", R"([{"slug":"a"},{"slug":"b"}])"}) {
    EXPECT_EQ(send(bytes).status, 400);
    EXPECT_EQ(database.log, "");
  }
  EXPECT_EQ(send(R"([{"slug":"a"}])").status, 201);
  EXPECT_EQ(database.log, "begin\ndelete a\ninsert a\ncommitted\n");
}

TEST_F(WriteEndpointTest, WithoutItsFilesNothingIsBegun) {
  EndpointOptions endpoint;
  endpoint.path.value = "/films";
  Named<ParamOptions> param;
  param.name = {"file"};
  param.value.from = Located<std::string>("upload.f");
  param.value.store = {"s"};
  endpoint.params.push_back(param);
  MethodOptions options;
  options.sql.value = "INSERT INTO films";
  make(http::Method::post, endpoint, options, {statement("insert", {{"file", {}}, {"slug", {}}})});
  EXPECT_EQ(send("{}", "application/json").status, 415);
  EXPECT_EQ(send_body(nullptr, "multipart/form-data; boundary=b").status, 400);
  EXPECT_EQ(database.log, "");
}

TEST_F(WriteEndpointTest, APasswordIsHashedOnceBeforeTheTransaction) {
  class Hasher final : public PasswordHasher {
   public:
    explicit Hasher(std::string& log) : log_(log) {}
    core::Task<std::optional<std::string>> hash(std::string_view, std::string) override {
      log_ += "hash\n";
      if (is_busy) co_return std::nullopt;
      co_return "$argon2id$" + std::to_string(++count_);
    }
    bool is_busy = false;

   private:
    std::string& log_;
    int count_ = 0;
  };
  Hasher hasher(database.log);
  EndpointOptions endpoint;
  endpoint.path.value = "/users";
  Named<ParamOptions> param;
  param.name = {"password"};
  param.value.hash = PasswordHash::argon2id;
  endpoint.params.push_back(param);
  MethodOptions options;
  options.sql.value = "INSERT INTO users";
  options.retries.value = 1;
  make(http::Method::post, endpoint, options,
       {statement("forget", {{"password", {}}}), statement("insert", {{"email", {}}, {"password", {}}})}, false,
       WriteEndpoint::Retries::own, &hasher);
  const std::string_view body = R"({"email":"a","password":"gr8-pass"})";
  EXPECT_EQ(send(body).status, 201);
  EXPECT_EQ(database.log, "hash\nbegin\nforget $argon2id$1\ninsert a $argon2id$1\ncommitted\n");
  EXPECT_EQ(send("email=a&password=gr8-pass", "application/x-www-form-urlencoded").status, 201);
  EXPECT_TRUE(database.log.ends_with("insert a $argon2id$2\ncommitted\n")) << database.log;

  database.steps = {{}, {.rows = {}, .changes = 0, .error = error(sql::Failure::conflict, "40001")}};
  EXPECT_EQ(send(body).status, 201);
  EXPECT_EQ(database.log,
            "hash\nbegin\nforget $argon2id$3\ninsert a $argon2id$3\ngone\n"
            "begin\nforget $argon2id$3\ninsert a $argon2id$3\ncommitted\n");

  hasher.is_busy = true;
  const http::Response busy = send(body);
  EXPECT_EQ(busy.status, 503);
  EXPECT_EQ(busy.fields.get("Retry-After"), "1");
  EXPECT_EQ(database.log, "hash\n");

  const http::Response refused = send(R"({"email":"a","password":"gr8"})");
  EXPECT_EQ(refused.status, 422);
  EXPECT_TRUE(body_of(refused).contains(R"("pointer":"/password","detail":"must have at least 8 characters")"))
      << body_of(refused);
  EXPECT_FALSE(body_of(refused).contains("gr8"));
  EXPECT_EQ(database.log, "");
  EXPECT_EQ(send(R"([{"email":"a","password":"gr8-pass"},{"email":"b","password":"gr9-pass"}])").status, 400);
  EXPECT_EQ(database.log, "");
}

TEST_F(WriteEndpointTest, NothingIsBegunForABodyThatCannotBeTaken) {
  make_insert();
  EXPECT_EQ(send_body(nullptr, "application/json").status, 400);
  EXPECT_EQ(send("x", "text/plain").status, 415);
  EXPECT_EQ(send(R"([{"slug":"a"})").status, 400);
  EXPECT_EQ(send(R"({"slug":"a"})", "application/json", 4, Errc::limit).status, 413);
  EXPECT_EQ(send(R"({"slug":"a"})", "application/json", 4, Errc::timed_out).status, 408);
  EXPECT_EQ(send(R"({"slug":"a"})", "application/json", 4, Errc::closed).status, 400);
  const http::Response refused =
      send("[{\"slug\":\"a\",\"score\":\"high\"},\n{\"slug\":\"b\",\"colour\":1},\n{\"slug\":\"c\"}]");
  EXPECT_EQ(refused.status, 422);
  const std::string said = body_of(refused);
  EXPECT_TRUE(said.contains(R"({"line":1,"row":0,"pointer":"/0/score","detail":"must be an integer"})")) << said;
  EXPECT_TRUE(said.contains(R"("line":2,"row":1,"pointer":"/1/colour")")) << said;
  EXPECT_EQ(database.log, "");
}

TEST_F(WriteEndpointTest, OfSeveralRowsTheOneThatIsRefusedIsTold) {
  make_insert();
  const std::string rows = R"([{"slug":"a"},{"slug":"b"}])";
  database.steps = {{}, {.rows = {}, .changes = 0, .error = error(sql::Failure::statement, "23505")}};
  EXPECT_TRUE(body_of(send(rows)).contains(R"("errors":[{"line":1,"row":1,"pointer":"/1")"));
  // An error of the commit cannot be assigned to a row.
  database.steps.clear();
  database.commit_error = error(sql::Failure::statement, "23505");
  database.commit_error->at_commit = true;
  const http::Response refused = send(rows);
  EXPECT_EQ(refused.status, 409);
  EXPECT_FALSE(body_of(refused).contains("errors")) << body_of(refused);
}

TEST_F(WriteEndpointTest, WhatIsReturnedIsTheAnswer) {
  MethodOptions options;
  options.location.value = "/films/{slug}";
  make_insert({{"slug", text}}, options);
  database.steps = {{.rows = {{"a b/é"}}, .changes = 1, .error = {}}};
  http::Response one = send(R"({"slug":"x"})");
  EXPECT_EQ(one.status, 201);
  EXPECT_EQ(one.fields.get("Location"), "/films/a%20b%2F%C3%A9");
  EXPECT_EQ(one.fields.get("Row-Count"), "1");
  EXPECT_EQ(body_of(one), "[{\"slug\":\"a b/é\"}]\n");
  database.steps = {{.rows = {{"a"}}, .changes = 1, .error = {}}, {.rows = {{"b"}}, .changes = 1, .error = {}}};
  http::Response two = send(R"([{"slug":"a"},{"slug":"b"}])");
  EXPECT_EQ(two.status, 201);
  EXPECT_FALSE(two.fields.get("Location").data() != nullptr && !two.fields.get("Location").empty());
  EXPECT_EQ(two.fields.get("Row-Count"), "2");
  EXPECT_TRUE(body_of(two).contains("\"a\"") && body_of(two).contains("\"b\"")) << body_of(two);
}

TEST_F(WriteEndpointTest, ConflictsAreTriedAgainAsOftenAsIsSaid) {
  MethodOptions options;
  options.retries = 2;
  make_insert({}, options);
  const Step conflict{.rows = {}, .changes = 0, .error = error(sql::Failure::conflict, "40001")};
  database.steps = {conflict, conflict};
  EXPECT_EQ(send(R"([{"slug":"a"},{"slug":"b"}])").status, 201);
  EXPECT_EQ(database.log,
            "begin\ninsert a NULL\ngone\nbegin\ninsert a NULL\ngone\nbegin\ninsert a NULL\ninsert b NULL\ncommitted\n");
  database.steps = {conflict, conflict, conflict};
  http::Response given_up = send(R"({"slug":"a"})");
  EXPECT_EQ(given_up.status, 409);
  EXPECT_EQ(given_up.fields.get("Retry-After"), "1");
  database.commit_error = error(sql::Failure::conflict, "40001");
  EXPECT_EQ(send(R"({"slug":"a"})").status, 201) << "a commit's conflict is one too";
  EXPECT_EQ(database.log, "begin\ninsert a NULL\ngone\nbegin\ninsert a NULL\ncommitted\n");
}

TEST_F(WriteEndpointTest, APartOfATransactionDoesNotTryAgainByItself) {
  MethodOptions options;
  options.retries = 10;
  make_insert({}, options, WriteEndpoint::Retries::callers);
  database.steps = {{.rows = {}, .changes = 0, .error = error(sql::Failure::conflict, "40001")}};
  EXPECT_EQ(send(R"({"slug":"a"})").status, 409);
  EXPECT_EQ(database.log, "begin\ninsert a NULL\ngone\n");
}

TEST_F(WriteEndpointTest, ErrorsAreToldWithoutTheDatabasesWords) {
  make_insert();
  const std::vector<std::pair<sql::Error, int>> known{{error(sql::Failure::statement, "23505"), 409},
                                                      {error(sql::Failure::statement, "23503"), 409},
                                                      {error(sql::Failure::statement, "23502"), 422},
                                                      {error(sql::Failure::statement, "23514"), 422},
                                                      {error(sql::Failure::statement, "P0001"), 422},
                                                      {error(sql::Failure::statement, "42501"), 403},
                                                      {error(sql::Failure::statement, "42P01"), 500},
                                                      {error(sql::Failure::bad_argument, "22P02"), 422},
                                                      {error(sql::Failure::timed_out), 504},
                                                      {error(sql::Failure::unavailable), 503},
                                                      {error(sql::Failure::lost), 503}};
  for (const auto& [failure, status] : known) {
    database.steps = {{}, {.rows = {}, .changes = 0, .error = failure}};
    const http::Response answer = send(R"([{"slug":"a"},{"slug":"b"}])");
    EXPECT_EQ(answer.status, status) << failure.sqlstate;
    EXPECT_FALSE(body_of(answer).contains("secret")) << body_of(answer);
    EXPECT_EQ(database.log, "begin\ninsert a NULL\ninsert b NULL\ngone\n");
  }
}

TEST_F(WriteEndpointTest, StatementsBeforeItRunOnceAndFirst) {
  EndpointOptions endpoint;
  endpoint.path.value = "/films/{slug}";
  MethodOptions options;
  options.isolation = sql::Isolation::serializable;
  make(http::Method::post, endpoint, options,
       {statement("before", {{"slug", {}}}), statement("main", {{"slug", {}}, {"tag", {}}})});
  Body body(R"([{"tag":"x"},{"tag":"y"}])");
  EXPECT_EQ(send_body(&body, "application/json", "heat").status, 204);
  EXPECT_EQ(database.log, "begin serializable\nbefore heat\nmain heat x\nmain heat y\ncommitted\n");
}

TEST_F(WriteEndpointTest, AnObjectThatIsNotThereIs404) {
  EndpointOptions endpoint;
  endpoint.path.value = "/films/{slug}";
  endpoint.returns = Returns::object;
  make(http::Method::delete_, endpoint, {}, {statement("delete", {{"slug", {}}})});
  EXPECT_EQ(send_body(nullptr, "", "heat").status, 204) << "without a body";
  EXPECT_EQ(database.log, "begin\ndelete heat\ncommitted\n");
  database.steps = {{.rows = {}, .changes = 0, .error = {}}};
  EXPECT_EQ(send_body(nullptr, "", "heat").status, 404);
  EXPECT_TRUE(database.must_do) << "or it is rolled back";
}

TEST_F(WriteEndpointTest, ARowThatATableLeavesOutIsRefused) {
  MethodOptions options;
  options.table.value = "films";
  EndpointOptions endpoint;
  endpoint.path.value = "/films";
  make(http::Method::post, endpoint, options, {statement("insert", {{"slug", {}}})});
  const Step none{.rows = {}, .changes = 0, .error = {}};
  database.steps = {{}, none};
  const http::Response refused = send(R"([{"slug":"a"},{"slug":"b"},{"slug":"c"}])");
  EXPECT_EQ(refused.status, 409);
  EXPECT_TRUE(body_of(refused).contains(R"("errors":[{"line":1,"row":1,"pointer":"/1")")) << body_of(refused);
  EXPECT_EQ(database.log, "begin\ninsert a\ninsert b\ngone\n");
  database.steps = {none};
  EXPECT_EQ(send(R"({"slug":"a"})").status, 409);
  EXPECT_FALSE(database.must_do) << "but where triggers leave rows out, the commit goes with the statement";
  options.table.value.clear();
  options.sql.value = "INSERT INTO films";
  make(http::Method::post, endpoint, options, {statement("insert", {{"slug", {}}})});
  database.steps = {none};
  EXPECT_EQ(send(R"({"slug":"a"})").status, 204) << "a statement of one's own may do nothing";
}

TEST_F(WriteEndpointTest, AnObjectIsReplacedOrInserted) {
  EndpointOptions endpoint;
  endpoint.path.value = "/films/{slug}";
  endpoint.returns = Returns::object;
  MethodOptions options;
  options.table.value = "films";
  make(http::Method::put, endpoint, options,
       {statement("update", {{"slug", {}}, {"score", {}}}), statement("insert", {{"slug", {}}, {"score", {}}})}, true);
  const auto put = [&] {
    Body body(R"({"score":8})");
    return send_body(&body, "application/json", "heat").status;
  };
  EXPECT_EQ(put(), 204);
  EXPECT_EQ(database.log, "begin\nupdate heat 8\ncommitted\n");
  database.steps = {{.rows = {}, .changes = 0, .error = {}}};
  EXPECT_EQ(put(), 201);
  EXPECT_EQ(database.log, "begin\nupdate heat 8\ninsert heat 8\ncommitted\n");
  // Another transaction has inserted the row between the two statements.
  database.steps = {{.rows = {}, .changes = 0, .error = {}},
                    {.rows = {}, .changes = 0, .error = error(sql::Failure::statement, "23505")}};
  EXPECT_EQ(put(), 204);
  EXPECT_EQ(database.log, "begin\nupdate heat 8\ninsert heat 8\ngone\nbegin\nupdate heat 8\ncommitted\n");
}

TEST(LocationPattern, NamesColumnsThatThereAre) {
  const std::vector<sql::Column> columns{{"id", {}}, {"name", {}}};
  EXPECT_TRUE(LocationPattern::parse("/a/{id}/{name}/x", columns));
  EXPECT_EQ(LocationPattern::parse("a/{id}", columns).error(), "it begins with \"/\"");
  EXPECT_EQ(LocationPattern::parse("/a/{id", columns).error(), "a \"{\" without its \"}\"");
  EXPECT_EQ(LocationPattern::parse("/a/{nome}", columns).error(), "the statement returns no column \"nome\"");
  const std::vector<sql::Field> fields{{"7", 1}, {nullptr, 0}};
  const sql::Block block{columns, fields, 1, true};
  EXPECT_EQ(LocationPattern::parse("/a/{id}.json", columns)->of(block), "/a/7.json");
  EXPECT_EQ(LocationPattern::parse("/a/{name}", columns)->of(block), std::nullopt) << "NULL is no place";
  const std::vector<sql::Column> later{{"name", {}}};  // the table has changed
  EXPECT_EQ(LocationPattern::parse("/a/{name}", columns)->of({later, std::span(fields).first(1), 1, true}), "/a/7");
  EXPECT_EQ(LocationPattern::parse("/a/{id}", columns)->of({later, std::span(fields).first(1), 1, true}), std::nullopt);
  for (const auto& [value, location] : {std::pair{"..", ""}, {".", ""}, {"a/..", ""}, {"...", "/a/.../x"}, {"", ""}}) {
    const sql::Field dots[] = {{value, static_cast<std::uint32_t>(std::string_view(value).size())}, {}};
    const auto of = LocationPattern::parse("/a/{id}/x", columns)->of({columns, dots, 1, true});
    EXPECT_EQ(of.value_or(""), location) << value;
  }
  for (const auto& [value, written, location] : {std::tuple{"a.csv", "/a/{id}", ""},
                                                 {"a.csv", "/a/{id}/x", "/a/a.csv/x"},
                                                 {"a.csv", "/a/{id}.json", "/a/a.csv.json"},
                                                 {"a.csv", "/a/{id}?x", ""},
                                                 {"a.csv", "/a?x={id}", "/a?x=a.csv"},
                                                 {"json", "/a/x.{id}", ""},
                                                 {".csv", "/a/{id}", "/a/.csv"},
                                                 {"", "/a/{id}", ""},
                                                 {"", "/a/x{id}", "/a/x"},
                                                 {"", "/a?x={id}", "/a?x="}}) {
    const sql::Field named[] = {{value, static_cast<std::uint32_t>(std::string_view(value).size())}, {}};
    const auto of = LocationPattern::parse(written, columns)->of({columns, named, 1, true});
    EXPECT_EQ(of.value_or(""), location) << value << written;
  }
}

// PATCH of one row with the version "rev" and the columns (name, rev).
class ConditionalWriteTest : public WriteEndpointTest {
 public:
  void make_patch(bool locks, bool required = false, std::uint32_t retries = 0) {
    const std::vector<sql::Column> columns{{"name", text}, {"rev", text}};
    EndpointOptions endpoint;
    endpoint.path.value = "/films";
    endpoint.returns = Returns::object;
    MethodOptions options;
    options.sql.value = "UPDATE";
    options.retries = retries;
    auto plan =
        std::make_shared<WritePlan>(http::Method::patch, endpoint, options, *http::Pattern::parse(endpoint.path.value),
                                    std::vector{statement("update", {}, columns)});
    auto current = std::make_shared<CurrentRow>();
    current->statement = statement("read", {}, columns);
    if (locks) current->lock = statement("lock", {});
    current->version = *Version::of("rev", columns);
    current->required = required;
    plan->current = current;
    plan->returned = current->version;
    handler = std::make_unique<WriteEndpoint>(plan, database, *reactor);
  }
  http::Response patch(std::vector<http::Field> fields) {
    database.log.clear();
    http::Exchange exchange;
    http::Request& request = exchange.request;
    request.fields = fields;
    return testing::answer_of(*reactor, handler->handle(exchange));
  }
  const Step is_at_7{.rows = {{"a", "7"}}, .changes = 0, .error = {}};
  const Step locked{.rows = {}, .changes = 0, .error = {}};
  const Step written{.rows = {{"a", "8"}}, .changes = 1, .error = {}};
};

TEST_F(ConditionalWriteTest, TheRowIsReadAndLockedBeforeItIsWritten) {
  make_patch(true);
  database.steps = {locked, is_at_7, written};
  http::Response response = patch({{"If-Match", "\"7\""}});
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.fields.get("ETag"), "\"8\"");
  EXPECT_EQ(database.log, "begin repeatable read\nlock\nread\nupdate\ncommitted\n");

  make_patch(false);
  database.steps = {is_at_7, written};
  EXPECT_EQ(patch({{"If-Match", "\"7;csv\""}}).status, 200);
  EXPECT_EQ(database.log, "begin serializable\nread\nupdate\ncommitted\n");

  database.steps = {written};
  EXPECT_EQ(patch({}).fields.get("ETag"), "\"8\"");
  EXPECT_EQ(database.log, "begin\nupdate\ncommitted\n") << "without a condition nothing is read";
}

TEST_F(ConditionalWriteTest, WhatDoesNotHoldWritesNothing) {
  make_patch(true);
  database.steps = {locked, is_at_7};
  EXPECT_EQ(patch({{"If-Match", "\"6\""}}).status, 412);
  EXPECT_EQ(database.log, "begin repeatable read\nlock\nread\ngone\n");
  database.steps = {locked, locked};
  EXPECT_EQ(patch({{"If-Match", "*"}}).status, 412) << "there is no row";
  database.steps = {is_at_7};
  EXPECT_EQ(patch({{"If-None-Match", "*"}}).status, 412);
  EXPECT_EQ(database.log, "begin serializable\nread\ngone\n") << "what is not there cannot be locked";
  database.steps = {locked, {.rows = {{"a", "7"}, {"b", "7"}}, .changes = 0, .error = {}}};
  EXPECT_EQ(patch({{"If-Match", "*"}}).status, 500);
  EXPECT_TRUE(database.log.ends_with("gone\n"));
}

TEST_F(ConditionalWriteTest, WhoeverWasInTheWayIsLookedAt) {
  make_patch(true);
  database.steps = {{.rows = {}, .changes = 0, .error = error(sql::Failure::conflict, "40001")},
                    locked,
                    {.rows = {{"a", "8"}}, .changes = 0, .error = {}}};
  EXPECT_EQ(patch({{"If-Match", "\"7\""}}).status, 412);
  EXPECT_EQ(database.log, "begin repeatable read\nlock\ngone\nbegin repeatable read\nlock\nread\ngone\n")
      << "also where nothing else is tried again";
}

TEST_F(ConditionalWriteTest, AConditionMayBeRequired) {
  make_patch(true, true);
  EXPECT_EQ(patch({}).status, 428);
  EXPECT_EQ(patch({{"If-None-Match", "\"7\""}}).status, 428);
  EXPECT_EQ(database.log, "");
  database.steps = {locked, is_at_7, written};
  EXPECT_EQ(patch({{"If-Match", "\"7\""}}).status, 200);
}

}  // namespace
}  // namespace sluice::api
