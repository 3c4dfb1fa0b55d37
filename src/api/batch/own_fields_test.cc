#include "api/batch/own_fields.h"

#include <gtest/gtest.h>

namespace sluice::api::batch {
namespace {

Located<std::string> at(const char* text) { return Located<std::string>(text); }

RequireOptions require(const char* that) {
  RequireOptions options;
  options.that.value = that;
  return options;
}

TEST(BatchOwnFieldsTest, WhatRoleRequireAndFromName) {
  EndpointOptions one;
  one.require.items.push_back(
      require("or(eq('x', header.X-User-Role), not(and(present(header.x-team), eq(claim.a, cookie.b))))"));
  one.require.items.push_back(require("exists(SELECT 1 FROM t WHERE a = :a AND b = 'header.Nobody')"));
  Named<ParamOptions> param;
  param.name.value = "user";
  param.value.from = at("header.X-User");
  one.params.push_back(param);
  param.name.value = "X-Other";
  param.value.from = at("query.X-Other");
  one.params.push_back(param);
  EndpointOptions other;
  other.put.emplace().require.items.push_back(require("ne(header.X-Level, '1')"));
  Named<ColumnOptions> column;
  column.name.value = "tenant";
  column.value.from = at("header.X-Tenant");
  other.post.emplace().columns.push_back(column);
  column.value.from = at("header.x-user");
  other.post->columns.push_back(column);
  column.value.from.reset();
  other.post->columns.push_back(column);

  RolePlan role;
  const EndpointOptions* const both[] = {&one, &other};
  const std::vector<std::string> expected{"x-level", "x-team", "x-tenant", "x-user", "x-user-role"};
  EXPECT_EQ(own_fields(nullptr, both), expected);
  EXPECT_EQ(own_fields(&role, both), expected);
  role.source.emplace().from = From::claim;
  role.source->key = "role";
  EXPECT_EQ(own_fields(&role, {}), std::vector<std::string>{});
  role.source->from = From::header;
  role.source->key = "X-Role";
  EXPECT_EQ(own_fields(&role, {}), std::vector<std::string>{"x-role"});
}

}  // namespace
}  // namespace sluice::api::batch
