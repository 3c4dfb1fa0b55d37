#include "api/openapi/document.h"

#include <gtest/gtest.h>

#include "sql/postgres/types.h"

namespace sluice::api::openapi {
namespace {

// Endpoints with a GET of one column, by path.
class Described : public testing::Test {
 protected:
  struct One {
    EndpointOptions options;
    http::Pattern pattern;
    std::unique_ptr<EndpointPlan> get;
    std::vector<Security> security;
    changes::Plan changes;
    bool tells = false;
  };

  One& add(std::string path, std::vector<sql::Parameter> parameters = {}, std::vector<std::uint32_t> oids = {}) {
    auto& one = *all_.emplace_back(std::make_unique<One>());
    one.options.path.value = std::move(path);
    one.pattern = *http::Pattern::parse(one.options.path.value);
    sql::Statement statement;
    statement.parameters = std::move(parameters);
    statement.described_types = std::move(oids);
    statement.columns.push_back({"a\"b", sql::postgres::builtin_type(25), 25});
    statement.columns.push_back({"a\"b", sql::postgres::builtin_type(23), 23});
    one.get = std::make_unique<EndpointPlan>(one.options, one.pattern, std::move(statement));
    return one;
  }
  Document document() {
    std::vector<Resource> resources;
    for (const auto& one : all_) {
      Resource resource;
      resource.options = &one->options;
      resource.pattern = &one->pattern;
      resource.get = one->get.get();
      resource.security = {{http::Method::get, one->security}};
      resource.changes = one->tells ? &one->changes : nullptr;
      resources.push_back(std::move(resource));
    }
    return make_document(options_, resources);
  }

  Options options_;
  std::vector<std::unique_ptr<One>> all_;
};

TEST_F(Described, Nothing) {
  EXPECT_EQ(document().text,
            R"({"openapi":"3.1.0","info":{"title":"API","version":"1"},"servers":[{"url":"/"}],"paths":{},)"
            R"("components":{"schemas":{},"responses":{}}})");
}

TEST_F(Described, TextsAreEscaped) {
  options_.title.value = "\"x\"\n";
  add("/a\"b");
  const std::string text = document().text;
  EXPECT_TRUE(text.contains(R"("title":"\"x\"\n")")) << text;
  EXPECT_TRUE(text.contains(R"("/a\"b":{)")) << text;
  EXPECT_TRUE(text.contains(R"("operationId":"getAB")")) << text;
  EXPECT_TRUE(text.contains(R"("required":["a\"b"])")) << "a column that is there twice";
}

TEST_F(Described, ParametersAreWhatTheDatabaseTakesThemFor) {
  add("/films/{id:int}", {{"id", sql::ParameterType::integer}, {"least", {}}, {"name", {}}, {"data", {}}},
      {20, 701, 25, 0});
  const std::string text = document().text;
  EXPECT_TRUE(text.contains(R"({"name":"id","in":"path","required":true,"schema":{"type":"integer")")) << text;
  EXPECT_TRUE(text.contains(R"({"name":"least","in":"query","schema":{"type":["number","string"],)")) << text;
  EXPECT_TRUE(text.contains(R"({"name":"name","in":"query","schema":{"type":"string"}})")) << text;
  EXPECT_TRUE(text.contains(R"({"name":"data","in":"query","schema":{"type":"string"}})")) << text;
}

TEST_F(Described, ParametersAreOfTheColumnsThatSqliteComparesThemWith) {
  auto& sources =
      add("/films", {{"a", {}}, {"b", {}}, {"c", {}}, {"d", {}}, {"e", sql::ParameterType::text}}).get->sources;
  const sql::ColumnKind kinds[] = {sql::ColumnKind::boolean, sql::ColumnKind::integer, sql::ColumnKind::numeric,
                                   sql::ColumnKind::text, sql::ColumnKind::integer};
  for (std::size_t i = 0; i < sources.size(); ++i) sources[i].column = kinds[i];
  const std::string text = document().text;
  EXPECT_TRUE(text.contains(R"({"name":"a","in":"query","schema":{"type":"boolean"}})")) << text;
  EXPECT_TRUE(text.contains(R"({"name":"b","in":"query","schema":{"type":"integer")")) << text;
  EXPECT_TRUE(text.contains(R"({"name":"c","in":"query","schema":{"type":"number"}})")) << text;
  EXPECT_TRUE(text.contains(R"({"name":"d","in":"query","schema":{"type":"string"}})")) << text;
  EXPECT_TRUE(text.contains(R"({"name":"e","in":"query","schema":{"type":"string"}})")) << text;
}

TEST_F(Described, ListsAreArrays) {
  add("/films", {{"id", sql::ParameterType::integers}, {"name", sql::ParameterType::texts}}, {1016, 1009});
  const std::string text = document().text;
  EXPECT_TRUE(text.contains(
      R"({"name":"id","in":"query","style":"form","explode":true,"schema":{"type":"array","items":{"type":"integer")"))
      << text;
  EXPECT_TRUE(text.contains(R"("schema":{"type":"array","items":{"type":"string"}}})")) << text;
}

TEST_F(Described, PathsThatOpenApiCannotTellApart) {
  add("/films/{id:int}", {{"id", {}}});
  add("/films/{slug}", {{"slug", {}}});
  add("/films/{slug}/tags", {{"slug", {}}});
  const Document made = document();
  ASSERT_EQ(made.warnings.size(), 1u);
  EXPECT_EQ(made.warnings[0],
            "the OpenAPI document leaves out /films/{slug}: OpenAPI cannot tell its path from /films/{id}");
  EXPECT_FALSE(made.text.contains("\"/films/{slug}\""));
  EXPECT_TRUE(made.text.contains("\"/films/{slug}/tags\""));
}

TEST_F(Described, EveryOperationHasANameOfItsOwn) {
  add("/a-b");
  add("/a_b");
  add("/a/b");
  const std::string text = document().text;
  for (const char* id : {R"("operationId":"getAB")", R"("operationId":"getAB2")", R"("operationId":"getAB3")"}) {
    EXPECT_TRUE(text.contains(id)) << id;
  }
}

TEST_F(Described, Security) {
  add("/a").security = {{.policy = "my auth"}};
  add("/b").security = {{.policy = "my auth", .optional = true}};
  add("/c");
  const std::string text = document().text;
  EXPECT_TRUE(text.contains(R"("operationId":"getA","tags":["a"],"security":[{"my_auth":[]}])")) << text;
  EXPECT_TRUE(text.contains(R"("operationId":"getB","tags":["b"],"security":[{},{"my_auth":[]}])")) << text;
  EXPECT_TRUE(text.contains(R"("operationId":"getC","tags":["c"],"responses")")) << text;
  EXPECT_TRUE(text.contains(R"("securitySchemes":{"my_auth":{"type":"http","scheme":"bearer","bearerFormat":"JWT"}})"));
}

TEST_F(Described, SecurityOfKeysAndPasswords) {
  using Scheme = Security::Scheme;
  add("/a").security = {{.policy = "k", .scheme = Scheme::header, .name = "X-API-Key"}};
  add("/b").security = {{.policy = "q", .scheme = Scheme::query, .name = "key"}};
  add("/c").security = {{.policy = "c", .scheme = Scheme::cookie, .name = "key"}};
  add("/d").security = {{.policy = "p", .scheme = Scheme::basic}};
  const std::string text = document().text;
  EXPECT_TRUE(text.contains(R"("k":{"type":"apiKey","in":"header","name":"X-API-Key"})")) << text;
  EXPECT_TRUE(text.contains(R"("q":{"type":"apiKey","in":"query","name":"key"})"));
  EXPECT_TRUE(text.contains(R"("c":{"type":"apiKey","in":"cookie","name":"key"})"));
  EXPECT_TRUE(text.contains(R"("p":{"type":"http","scheme":"basic"})"));
}

TEST_F(Described, ChangesHaveAPathOfTheirOwn) {
  add("/films/{id:int}").tells = true;
  One& alone = add("/news");
  alone.tells = true;
  alone.get.reset();
  const std::string text = document().text;
  EXPECT_TRUE(text.contains(R"("/films/{id}/changes":{"parameters":[{"name":"id")")) << text;
  EXPECT_TRUE(text.contains(R"("operationId":"getFilmsByIdChanges","tags":["films"])")) << text;
  EXPECT_TRUE(text.contains(R"("content":{"text/event-stream":{"schema":{"type":"string"}}})")) << text;
  EXPECT_TRUE(text.contains(R"("/news/changes":{"get":)")) << text;
  EXPECT_FALSE(text.contains(R"("/news":)")) << "it answers nothing";
}

// A resident table with one column of each kind.
class DescribedResident : public testing::Test {
 protected:
  DescribedResident() {
    plan_.name = "users";
    const auto add = [&](std::string name, std::uint32_t oid) {
      plan_.statement.columns.push_back({std::move(name), sql::postgres::builtin_type(oid), oid});
    };
    add("id", 23);
    add("name", 25);
    add("roles", 1009);
    add("score", 1700);
    add("a,b", 25);
    plan_.shape.key = "id";
    plan_.shape.index = {"roles", "score"};
  }
  Document document(bool twice = false) {
    std::vector<ResidentResource> all;
    for (int i = 0; i < (twice ? 2 : 1); ++i) {
      all.push_back({.pattern = *http::Pattern::parse("/users"),
                     .key_pattern = {},
                     .plan = &plan_,
                     .security = {{.policy = "auth"}}});
      if (!plan_.shape.key.empty()) all.back().key_pattern = *http::Pattern::parse("/users/{key}");
    }
    return make_document({}, {}, all);
  }

  resident::Plan plan_;
};

TEST_F(DescribedResident, ConditionsAreThoseOfIndexedColumns) {
  const std::string text = document().text;
  for (const char* part : {
           R"("/users":{"get":{"operationId":"getUsers","tags":["users"],"security":[{"auth":[]}],"parameters":[)"
           R"({"name":"id","in":"query","description":"Rows with this value: an integer. )",
           R"("pattern":"^(((not\\.)?(n?eq|gt|gte|lt|lte)\\.)?(-?([0-9]{1,18}|[0-8][0-9]{18}))|(not\\.)?(in\\.\\()",
           R"({"name":"roles","in":"query","description":"Rows among whose values this is: a text. )",
           R"({"not":{"pattern":"^(not\\.)?(i[ns]|[gl]te?)\\."}})",
           R"({"type":"array","items":{"enum":["id","-id","score","-score"]},"minItems":1,"uniqueItems":true,"allOf":)",
           R"("fields","in":"query","description":"These members of the rows alone, in this order.","explode":false,)"
           R"("schema":{"type":"array","items":{"enum":["id","name","roles","score"]})",
           R"("maxItems":10)",
       }) {
    EXPECT_TRUE(text.contains(part)) << part << "\n" << text;
  }
  EXPECT_FALSE(text.contains(R"({"name":"name","in":"query")")) << "it has no index";
}

TEST_F(DescribedResident, OneRowHasAPathOfItsOwn) {
  const std::string text = document().text;
  EXPECT_TRUE(text.contains(R"("/users/{key}":{"parameters":[{"name":"key","in":"path",)"
                            R"("description":"The value of `id`.","required":true,)"
                            R"("schema":{"type":"integer","format":"int64")"))
      << text;
  EXPECT_TRUE(text.contains(R"("operationId":"getUsersByKey")"));
  EXPECT_FALSE(text.contains("text/csv"));
  plan_.shape.csv = true;
  EXPECT_TRUE(document().text.contains("text/csv"));
}

TEST_F(DescribedResident, NothingIsSorted) {
  plan_.shape.key.clear();
  plan_.shape.index = {"roles"};
  EXPECT_FALSE(document().text.contains(R"("name":"sort")"));
}

TEST_F(DescribedResident, APathIsThereOnce) {
  EXPECT_EQ(document(true).warnings,
            (std::vector<std::string>{
                "the OpenAPI document leaves out /users: OpenAPI cannot tell its path from /users",
                "the OpenAPI document leaves out /users/{key}: OpenAPI cannot tell its path from /users/{key}"}));
}

}  // namespace
}  // namespace sluice::api::openapi
