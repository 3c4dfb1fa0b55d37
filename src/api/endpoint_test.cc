#include "api/endpoint.h"

#include <deque>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace sluice::api {
namespace {

using core::Async;
using core::Task;

// Returns prepared blocks and records the queries.
class FakeDatabase final : public sql::Database {
 public:
  struct Step {
    std::vector<std::vector<const char*>> rows;
    bool last = true;
    std::optional<sql::Failure> failure;
    const std::vector<sql::Column>* columns = nullptr;  // null for the statement's columns
  };

  Task<sql::Result<sql::Statement>> prepare(std::string_view, std::span<const sql::Parameter>) override {
    co_return sql::Statement{};
  }
  Async<sql::Result<std::unique_ptr<sql::Cursor>>> query(const sql::Statement& statement,
                                                         std::span<const sql::Argument> arguments,
                                                         const sql::QueryOptions&) override {
    asked.clear();
    for (const auto& argument : arguments) {
      asked.push_back(argument.text ? std::optional<std::string>(*argument.text) : std::nullopt);
    }
    using Answer = sql::Result<std::unique_ptr<sql::Cursor>>;
    Answer answer = refusal ? Answer(std::unexpected(sql::Error{*refusal, {}, "refused", 0}))
                            : Answer(std::make_unique<FakeCursor>(*this, statement));
    if (late_query) return later(std::move(answer));
    return answer;
  }
  Task<sql::Result<sql::Statement>> prepare_writing(std::string_view, std::span<const sql::Parameter>) override {
    co_return sql::Statement{};
  }
  std::unique_ptr<sql::Transaction> begin(const sql::TransactionOptions&) override { return nullptr; }
  std::unique_ptr<sql::Staging> stage(const sql::SetPlan&, const sql::TransactionOptions&) override { return nullptr; }
  Task<sql::Result<void>> ping(Instant) override { co_return sql::Result<void>{}; }

  std::deque<Step> steps;
  std::optional<sql::Failure> refusal;
  bool late_query = false;  // the query is not ready at once
  bool late_rows = false;   // the rows are not ready at once
  std::vector<std::optional<std::string>> asked;

 private:
  template <class T>
  static Task<T> later(T value) {
    co_return value;
  }
  struct FakeCursor final : sql::Cursor {
    FakeCursor(FakeDatabase& database, const sql::Statement& statement) : database(database), statement(statement) {}
    Async<sql::Result<sql::Block>> next() override {
      const Step step = database.steps.front();
      database.steps.pop_front();
      if (step.failure) return give(std::unexpected(sql::Error{*step.failure, {}, "broke", 0}));
      fields.clear();
      for (const auto& row : step.rows) {
        for (const char* text : row) {
          fields.push_back({text, text == nullptr ? 0 : static_cast<std::uint32_t>(std::string_view(text).size())});
        }
      }
      return give(
          sql::Block{step.columns != nullptr ? *step.columns : statement.columns, fields, step.rows.size(), step.last});
    }
    Async<sql::Result<sql::Block>> give(sql::Result<sql::Block> answer) const {
      if (database.late_rows) return later(std::move(answer));
      return answer;
    }
    FakeDatabase& database;
    const sql::Statement& statement;
    std::vector<sql::Field> fields;
  };
};

class EndpointTest : public testing::Test {
 public:
  void make(std::string_view path, Returns returns, std::vector<sql::Parameter> parameters,
            std::vector<Named<ParamOptions>> params = {}) {
    EndpointOptions options;
    options.path.value = path;
    options.returns = returns;
    options.params = std::move(params);
    sql::Statement statement;
    statement.parameters = std::move(parameters);
    statement.columns = {{"id", number}, {"name", text}};
    plan = std::make_shared<const EndpointPlan>(options, *http::Pattern::parse(path), std::move(statement));
    endpoint = std::make_unique<Endpoint>(plan, database, *reactor);
  }
  void make_versioned(std::string version) {
    EndpointOptions options;
    options.path.value = "/x";
    options.returns = Returns::object;
    options.version.value = std::move(version);
    options.cache_control = Located<std::string>("no-cache");
    sql::Statement statement;
    statement.columns = {{"id", number}, {"name", text}};
    plan = std::make_shared<const EndpointPlan>(options, *http::Pattern::parse("/x"), std::move(statement));
    endpoint = std::make_unique<Endpoint>(plan, database, *reactor);
  }
  http::Response get(std::string_view query = {}, std::vector<http::Field> fields = {}, std::string_view in_path = {},
                     std::string_view extension = {}) {
    http::Exchange exchange;
    http::Request& request = exchange.request;
    request.query = query;
    request.fields = fields;
    request.path_values[0] = in_path;
    request.extension = extension;
    auto answer = endpoint->handle(exchange);
    if (answer.ready()) return answer.take();
    std::optional<http::Response> late;
    core::TaskGroup tasks;
    tasks.spawn([](Async<http::Response> from, std::optional<http::Response>& into) -> Task<void> {
      into.emplace(co_await std::move(from));
    }(std::move(answer), late));
    return std::move(*late);
  }
  // The whole body, with "|broken" at the end if it breaks off.
  static std::string body(http::Response& response) {
    if (auto* bytes = std::get_if<Buffer>(&response.body)) return std::string(bytes->view());
    auto& source = *std::get<std::unique_ptr<http::BodySource>>(response.body);
    Buffer out;
    for (;;) {
      auto progress = source.pull(out).take();
      if (!progress) return std::string(out.view()) + "|broken";
      if (*progress == http::BodySource::Progress::done) return std::string(out.view());
    }
  }

  static constexpr auto type_of = [](sql::Form form) {
    auto type = std::make_shared<sql::Type>();
    type->form = form;
    return std::shared_ptr<const sql::Type>(std::move(type));
  };
  std::shared_ptr<const sql::Type> number = type_of(sql::Form::number);
  std::shared_ptr<const sql::Type> text = type_of(sql::Form::text);
  std::unique_ptr<core::Reactor> reactor = core::make_epoll_reactor();
  FakeDatabase database;
  std::shared_ptr<const EndpointPlan> plan;
  std::unique_ptr<Endpoint> endpoint;
};

TEST_F(EndpointTest, ParametersComeFromPathQueryAndDefaults) {
  ParamOptions limit;
  limit.default_value = Located<Scalar>(Scalar{"20"});
  ParamOptions must;
  must.required = true;
  make("/x/{slug}", Returns::rows, {{"slug", {}}, {"limit", sql::ParameterType::integer}, {"q", {}}, {"must", {}}},
       {{{"limit"}, limit}, {{"must"}, must}});
  database.steps = {{}, {}, {}};
  EXPECT_EQ(get("must=1&q=a+b", {}, "heat").status, 200);
  EXPECT_EQ(database.asked, (std::vector<std::optional<std::string>>{"heat", "20", "a b", "1"}));
  EXPECT_EQ(get("must=&limit=&q=", {}, "heat").status, 200) << "an empty number is a missing one";
  EXPECT_EQ(database.asked, (std::vector<std::optional<std::string>>{"heat", "20", "", ""}));
  EXPECT_EQ(get("must=1&q=a&slug=forged", {}, "heat").status, 400) << "it comes from the path";
  EXPECT_EQ(get("must=1&limit=7", {}, "heat").status, 200);
  EXPECT_EQ(database.asked, (std::vector<std::optional<std::string>>{"heat", "7", std::nullopt, "1"}));
}

TEST_F(EndpointTest, AValueThatDoesNotFitIs400AndNeverReachesTheDatabase) {
  ParamOptions must;
  must.required = true;
  make("/x", Returns::rows,
       {{"n", sql::ParameterType::integer},
        {"r", sql::ParameterType::real},
        {"b", sql::ParameterType::boolean},
        {"must", {}}},
       {{{"must"}, must}});
  for (const char* query : {"n=x&must=1", "n=1.5&must=1", "n=99999999999999999999&must=1", "n=%201&must=1",
                            "r=1x&must=1", "b=yes&must=1", "n=1", "must=a%00b", "must=%zz", "must=a%", "must=1&n=%4",
                            "n=0x10&must=1", "n=1;drop&must=1", "must=1&utm=1", "must=1&%zz=1", "must=1&must=2"}) {
    database.asked = {"untouched"};
    http::Response response = get(query);
    EXPECT_EQ(response.status, 400) << query;
    EXPECT_EQ(database.asked, (std::vector<std::optional<std::string>>{"untouched"})) << query;
  }
  database.steps = {{}};
  EXPECT_EQ(get("n=-9223372036854775808&r=1e3&b=true&must=1").status, 200);
}

TEST_F(EndpointTest, AnObjectIsExactlyOneRow) {
  make("/x", Returns::object, {});
  database.steps = {{.rows = {{"1", "a"}}, .last = true, .failure = {}}};
  http::Response one = get();
  EXPECT_EQ(one.status, 200);
  EXPECT_EQ(body(one).substr(0, 19), R"({"id":1,"name":"a"})");
  database.steps = {{}};
  EXPECT_EQ(get().status, 404);
  database.steps = {{.rows = {{"1", "a"}, {"2", "b"}}, .last = true, .failure = {}}};
  EXPECT_EQ(get().status, 500);
  // One row in a block that is not the last. Only the next block shows that there are no more rows.
  database.steps = {{.rows = {{"1", "a"}}, .last = false, .failure = {}}, {}};
  http::Response later = get();
  EXPECT_EQ(later.status, 200);
  EXPECT_EQ(body(later).substr(0, 19), R"({"id":1,"name":"a"})");
  database.steps = {{.rows = {{"1", "a"}}, .last = false, .failure = {}},
                    {.rows = {{"2", "b"}}, .last = true, .failure = {}}};
  EXPECT_EQ(get().status, 500);
}

TEST_F(EndpointTest, AnObjectWithAVersionHasATagAndObeysConditions) {
  make_versioned("name");
  const auto ask = [&](std::vector<http::Field> fields, std::string_view extension = {}) {
    database.steps = {{.rows = {{"1", "a"}}, .last = true, .failure = {}}};
    http::Response response = get({}, std::move(fields), {}, extension);
    if (response.status == 304) {
      EXPECT_TRUE(std::holds_alternative<std::monostate>(response.body));
      EXPECT_EQ(response.fields.get("Content-Type"), "");
    }
    EXPECT_EQ(response.fields.get("Cache-Control"), response.status == 412 ? "" : "no-cache");
    return std::to_string(response.status) + " " + std::string(response.fields.get("ETag"));
  };
  for (int way = 0; way < 4; ++way) {
    database.late_query = (way & 1) != 0;
    database.late_rows = (way & 2) != 0;
    EXPECT_EQ(ask({}), "200 \"a\"");
    EXPECT_EQ(ask({}, ".csv"), "200 \"a;csv\"");
    EXPECT_EQ(ask({{"Accept", "application/csj;header=absent"}}), "200 \"a;csj-bare\"");
    EXPECT_EQ(ask({{"If-None-Match", "W/\"a\""}}), "304 \"a\"");
    EXPECT_EQ(ask({{"If-None-Match", "\"a;gzip\""}, {"Accept-Encoding", "gzip"}}), "304 \"a;gzip\"");
    EXPECT_EQ(ask({{"If-None-Match", "*"}}), "304 \"a\"");
    EXPECT_EQ(ask({{"If-None-Match", "\"a\""}}, ".csv"), "200 \"a;csv\"");
    EXPECT_EQ(ask({{"If-None-Match", "\"b\""}}), "200 \"a\"");
    EXPECT_EQ(ask({{"If-Match", "\"a;csv\""}}), "200 \"a\"");
    EXPECT_EQ(ask({{"If-Match", "\"b\""}}), "412 ");
  }
  database.steps = {{.rows = {{"1", nullptr}}, .last = true, .failure = {}}};
  http::Response without = get({}, {{"If-None-Match", "\"\""}});
  EXPECT_EQ(without.status, 200);
  EXPECT_EQ(without.fields.get("ETag"), "");
  database.steps = {{}};
  EXPECT_EQ(get({}, {{"If-None-Match", "*"}}).status, 404);
}

TEST_F(EndpointTest, TheFormatIsNegotiatedOrTakenFromTheExtension) {
  make("/x", Returns::rows, {});
  const auto type = [&](std::vector<http::Field> fields, std::string_view extension = {}) {
    database.steps = {{.rows = {{"1", nullptr}}, .last = true, .failure = {}}};
    http::Response response = get({}, std::move(fields), {}, extension);
    return response.status == 200 ? std::string(response.fields.get("Content-Type")) : std::to_string(response.status);
  };
  EXPECT_EQ(type({}), "application/json");
  EXPECT_EQ(type({{"accept", "text/csv;q=0.9, application/json;q=0.1"}}).substr(0, 8), "text/csv");
  EXPECT_EQ(type({{"accept", "application/x-ndjson"}}), "application/x-ndjson");
  EXPECT_EQ(type({{"accept", "image/png"}}), "406");
  EXPECT_EQ(type({{"accept", "image/png"}}, ".csj"), "application/csj") << "the extension decides alone";
}

TEST_F(EndpointTest, TheHeaderLineIsNegotiated) {
  make("/x", Returns::rows, {});
  const auto ask = [&](std::string_view accept, std::string_view extension = {}) {
    database.steps = {{.rows = {{"1", "a"}}, .last = true, .failure = {}}};
    http::Response whole = get({}, {{"Accept", accept}}, {}, extension);
    if (whole.status != 200) return std::to_string(whole.status);
    EXPECT_EQ(whole.fields.get("Vary").empty(), !extension.empty());
    const std::string type(whole.fields.get("Content-Type"));
    const std::string answer = body(whole);
    database.steps = {{.rows = {{"1", "a"}}, .last = false, .failure = {}}, {}};
    http::Response streamed = get({}, {{"Accept", accept}}, {}, extension);
    EXPECT_EQ(streamed.fields.get("Content-Type"), type);
    EXPECT_EQ(body(streamed), answer);
    return type + " | " + answer;
  };
  const std::string csv = "text/csv; charset=utf-8; header=present | id,name\n1,a\n";
  const std::string bare_csv = "text/csv; charset=utf-8; header=absent | 1,a\n";
  EXPECT_EQ(ask("text/csv"), csv);
  EXPECT_EQ(ask("text/csv;header=present"), csv);
  EXPECT_EQ(ask("text/csv; header=absent"), bare_csv);
  EXPECT_EQ(ask("text/csv; charset=UTF-8; header=\"absent\""), bare_csv);
  EXPECT_EQ(ask("text/csv;q=0.5, text/csv;header=absent"), bare_csv);
  EXPECT_EQ(ask("text/csv;header=absent;q=0.5, text/csv"), csv);
  EXPECT_EQ(ask("application/csj;header=absent"), "application/csj; header=absent | 1,\"a\"\n");
  EXPECT_EQ(ask("application/csj"), "application/csj | \"id\",\"name\"\n1,\"a\"\n");
  EXPECT_EQ(ask("application/json;charset=utf-8"), "application/json | [{\"id\":1,\"name\":\"a\"}]\n");
  // A parameter that cannot be satisfied is not ignored.
  EXPECT_EQ(ask("text/csv;header=maybe"), "406");
  EXPECT_EQ(ask("text/csv;charset=iso-8859-1"), "406");
  EXPECT_EQ(ask("text/csv;delimiter=semicolon"), "406");
  EXPECT_EQ(ask("application/json;header=absent"), "406");
  EXPECT_EQ(ask("text/csv;delimiter=semicolon, application/x-ndjson;q=0.1"),
            "application/x-ndjson | {\"id\":1,\"name\":\"a\"}\n");
  EXPECT_EQ(ask("text/csv;header=absent", ".csv"), csv) << "the extension decides alone";
}

TEST_F(EndpointTest, AnEmptyAnswerWithTrailersEnds) {
  make("/x", Returns::rows, {});
  for (const char* accept : {"application/x-ndjson", "text/csv;header=absent"}) {
    database.steps = {{}};
    http::Response response = get({}, {{"TE", "trailers"}, {"Accept", accept}});
    EXPECT_EQ(body(response), "");
    EXPECT_EQ(std::get<std::unique_ptr<http::BodySource>>(response.body)->trailers()[0].value, "0");
  }
}

TEST_F(EndpointTest, WhatIsAllThereHasALengthAndARowCount) {
  make("/x", Returns::rows, {});
  database.steps = {{.rows = {{"1", "a"}, {"2", nullptr}}, .last = true, .failure = {}}};
  http::Response response = get({}, {}, {}, ".csv");
  EXPECT_EQ(body(response), "id,name\n1,a\n2,\n");
  EXPECT_EQ(response.fields.get("Row-Count"), "2");
}

TEST_F(EndpointTest, ALongerResultIsStreamedAndCountedInItsTrailer) {
  make("/x", Returns::rows, {});
  database.steps = {
      {.rows = {{"1", "a"}}, .last = false, .failure = {}}, {.rows = {{"2", "b"}}, .last = false, .failure = {}}, {}};
  http::Response response = get({}, {{"TE", "trailers"}}, {}, ".csv");
  EXPECT_EQ(response.fields.get("Trailer"), "Row-Count");
  EXPECT_EQ(body(response), "id,name\n1,a\n2,b\n");
  const auto trailers = std::get<std::unique_ptr<http::BodySource>>(response.body)->trailers();
  ASSERT_EQ(trailers.size(), 1u);
  EXPECT_EQ(trailers[0].value, "2");
}

TEST_F(EndpointTest, TheAnswerHasTheColumnsThatTheRowsComeWith) {
  make("/x", Returns::rows, {});
  const std::vector<sql::Column> more{{"id", number}, {"name", text}, {"n", number}};
  const std::vector<sql::Column> renamed{{"id", number}, {"title", text}};
  const auto ask = [&](const std::vector<sql::Column>* columns, std::vector<const char*> row,
                       std::string_view extension) {
    database.steps = {{.rows = {row}, .last = true, .failure = {}, .columns = columns}};
    http::Response whole = get({}, {}, {}, extension);
    // The same as a stream of two blocks.
    database.steps = {{.rows = {row}, .last = false, .failure = {}, .columns = columns},
                      {.rows = {}, .last = true, .failure = {}, .columns = columns}};
    http::Response streamed = get({}, {}, {}, extension);
    EXPECT_TRUE(std::holds_alternative<std::unique_ptr<http::BodySource>>(streamed.body));
    const std::string answer = body(whole);
    EXPECT_EQ(body(streamed), answer);
    return answer;
  };
  for (int i = 0; i < 2; ++i) {  // the first use creates it, the second finds it
    EXPECT_EQ(ask(nullptr, {"1", "a"}, ".csv"), "id,name\n1,a\n");
    EXPECT_EQ(ask(&more, {"1", "a", "7"}, ".csv"), "id,name,n\n1,a,7\n");
    EXPECT_EQ(ask(&more, {"1", "a", "7"}, ".ndjson"), "{\"id\":1,\"name\":\"a\",\"n\":7}\n");
    EXPECT_EQ(ask(&renamed, {"1", "a"}, ".csv"), "id,title\n1,a\n");
    EXPECT_EQ(ask(&renamed, {"1", "a"}, ".csj"), "\"id\",\"title\"\n1,\"a\"\n");
    EXPECT_EQ(ask(nullptr, {"1", "a"}, ".ndjson"), "{\"id\":1,\"name\":\"a\"}\n");
  }
  make("/x", Returns::object, {});
  database.steps = {{.rows = {{"1", "a", "7"}}, .last = true, .failure = {}, .columns = &more}};
  http::Response object = get();
  EXPECT_EQ(body(object), "{\"id\":1,\"name\":\"a\",\"n\":7}\n");
}

TEST_F(EndpointTest, AStreamThatBreaksIsCut) {
  make("/x", Returns::rows, {});
  database.steps = {{.rows = {{"1", "a"}}, .last = false, .failure = {}},
                    {.rows = {}, .last = false, .failure = sql::Failure::lost}};
  http::Response response = get({}, {}, {}, ".csv");
  EXPECT_EQ(body(response), "id,name\n1,a\n|broken");
}

TEST_F(EndpointTest, FailuresAreStatusesWithoutTheDatabasesWords) {
  make("/x", Returns::rows, {{"q", {}}});
  const std::map<sql::Failure, int> statuses{{sql::Failure::unavailable, 503},
                                             {sql::Failure::lost, 503},
                                             {sql::Failure::timed_out, 504},
                                             {sql::Failure::bad_argument, 400},
                                             {sql::Failure::statement, 500}};
  for (const auto& [failure, status] : statuses) {
    for (int way = 0; way < 16; ++way) {
      database.late_query = (way & 1) != 0;
      database.late_rows = (way & 2) != 0;
      database.refusal = (way & 4) != 0 ? std::optional(failure) : std::nullopt;
      database.steps = {{.rows = {}, .last = false, .failure = failure}};
      const auto trailers = std::vector<http::Field>((way & 8) != 0 ? 1 : 0, {"TE", "trailers"});
      http::Response response = get({}, trailers);
      EXPECT_EQ(response.status, status);
      EXPECT_EQ(response.fields.get("Content-Type"), "application/problem+json");
      EXPECT_EQ(response.fields.get("Retry-After").empty(), status != 503);
      const std::string text_of_body = body(response);
      EXPECT_EQ(text_of_body.find("refused"), std::string::npos);
      EXPECT_EQ(text_of_body.find("broke"), std::string::npos);
    }
  }
}

TEST_F(EndpointTest, BadDataThatNoParameterCausedIsOurs) {
  make("/x", Returns::rows, {});
  database.refusal = sql::Failure::bad_argument;
  EXPECT_EQ(get().status, 500);
}

}  // namespace
}  // namespace sluice::api
