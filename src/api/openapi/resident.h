#pragma once

#include "api/openapi/json.h"
#include "api/resident/resident.h"

// What a `[[resident]]` takes, as OpenAPI says it.
namespace sluice::api::openapi {

// Of a key in the path.
[[nodiscard]] Json resident_key_schema(const resident::Plan& plan);
// Of the query string of `/NAME`: conditions, sort, limit, offset, fields.
void add_resident_parameters(const resident::Plan& plan, Json::Array& parameters);
// `fields` alone, which `/NAME/KEY` takes.
void add_fields_parameter(const resident::Plan& plan, Json::Array& parameters);

}  // namespace sluice::api::openapi
