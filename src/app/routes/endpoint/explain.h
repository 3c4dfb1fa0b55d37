#pragma once

#include "api/options.h"
#include "app/explain/answer.h"
#include "app/routes/endpoint/prepare_endpoint.h"
#include "http/exchange.h"

namespace sluice::app {

// Says where an endpoint's answer comes from, and has the database explain the statement, without executing it.
void explain_endpoint(AnswerExplainer& into, const api::EndpointOptions& endpoint, const PreparedEndpoint& prepared,
                      http::Exchange& exchange);

}  // namespace sluice::app
