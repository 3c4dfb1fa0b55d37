#pragma once

#include "api/openapi/json.h"
#include "api/resident/resident.h"

// The parameters of a `[[resident]]` as OpenAPI describes them.
namespace sluice::api::openapi {

// The schema of a key in the path.
[[nodiscard]] Json resident_key_schema(const resident::Plan& plan);
// The query parameters of `/NAME`: conditions, sort, limit, offset, fields.
void add_resident_parameters(const resident::Plan& plan, Json::Array& parameters);
// Only `fields`, which `/NAME/KEY` accepts.
void add_fields_parameter(const resident::Plan& plan, Json::Array& parameters);

}  // namespace sluice::api::openapi
