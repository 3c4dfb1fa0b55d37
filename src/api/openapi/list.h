#pragma once

#include "api/list/plan.h"
#include "api/openapi/json.h"

// [endpoint.list] as OpenAPI describes it.
namespace sluice::api::openapi {

// The query parameters: conditions, q, sort, limit, offset, after, before, fields, count.
void add_list_parameters(const list::Plan& plan, Json::Array& parameters);

}  // namespace sluice::api::openapi
