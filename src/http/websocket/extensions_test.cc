#include "http/websocket/extensions.h"

#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace sluice::http::websocket {
namespace {

using Outcome = Negotiation::Outcome;

Negotiation ask(std::vector<std::string_view> offers, const DeflatePolicy& policy = {.context_takeover = true}) {
  std::vector<Field> fields;
  for (const std::string_view offer : offers) fields.push_back({"Sec-WebSocket-Extensions", offer});
  return negotiate_deflate(fields, policy);
}

TEST(Negotiation, NothingIsOffered) {
  EXPECT_EQ(ask({}).outcome, Outcome::none);
  EXPECT_EQ(ask({""}).outcome, Outcome::none);
  EXPECT_EQ(ask({"x-webkit-deflate-frame, bbf-usp-protocol; a=b; c=\"d\""}).outcome, Outcome::none);
}

TEST(Negotiation, PlainOffer) {
  const Negotiation result = ask({"permessage-deflate"});
  EXPECT_EQ(result.outcome, Outcome::agreed);
  EXPECT_EQ(result.response, "permessage-deflate");
  EXPECT_EQ(result.parameters, ws::DeflateParameters{});
}

TEST(Negotiation, WithoutContextTakeoverBothSidesForget) {
  const Negotiation result = ask({"permessage-deflate; client_max_window_bits"}, {.context_takeover = false});
  EXPECT_EQ(result.response, "permessage-deflate; server_no_context_takeover; client_no_context_takeover");
  EXPECT_TRUE(result.parameters.server_no_context_takeover && result.parameters.client_no_context_takeover);
}

TEST(Negotiation, TheClientsPreferencesAreMet) {
  Negotiation result = ask({"permessage-deflate; server_no_context_takeover; server_max_window_bits=10"});
  EXPECT_EQ(result.response, "permessage-deflate; server_no_context_takeover; server_max_window_bits=10");
  EXPECT_EQ(result.parameters.server_window_bits, 10);
  EXPECT_FALSE(result.parameters.client_no_context_takeover);
  result = ask({"permessage-deflate; client_no_context_takeover; client_max_window_bits=\"9\""});
  EXPECT_EQ(result.response, "permessage-deflate; client_no_context_takeover; client_max_window_bits=9");
  EXPECT_EQ(result.parameters.client_window_bits, 9);
  EXPECT_EQ(ask({"permessage-deflate; server_max_window_bits=8"}).parameters.server_window_bits, 8);
}

TEST(Negotiation, OurWindowIsTheUpperBound) {
  const DeflatePolicy policy{.context_takeover = true, .window_bits = 11};
  EXPECT_EQ(ask({"permessage-deflate"}, policy).response, "permessage-deflate; server_max_window_bits=11");
  // A smaller client window is requested only if the client supports it.
  EXPECT_EQ(ask({"permessage-deflate"}, policy).parameters.client_window_bits, 15);
  EXPECT_EQ(ask({"permessage-deflate; client_max_window_bits; server_max_window_bits=15"}, policy).response,
            "permessage-deflate; server_max_window_bits=11; client_max_window_bits=11");
}

TEST(Negotiation, TheFirstOfferThatCanBeMet) {
  const Negotiation result = ask({"permessage-deflate; server_max_window_bits=7, foo", "permessage-deflate; unknown",
                                  "permessage-deflate; server_max_window_bits=12, permessage-deflate"});
  EXPECT_EQ(result.response, "permessage-deflate; server_max_window_bits=12");
}

TEST(Negotiation, OffersThatAreDeclined) {
  for (const char* offer :
       {"permessage-deflate; server_max_window_bits", "permessage-deflate; server_max_window_bits=16",
        "permessage-deflate; server_max_window_bits=08", "permessage-deflate; server_max_window_bits=1",
        "permessage-deflate; client_max_window_bits=7", "permessage-deflate; server_no_context_takeover=1",
        "permessage-deflate; client_no_context_takeover=true", "permessage-deflate; x=1",
        "permessage-deflate; server_no_context_takeover; server_no_context_takeover",
        "permessage-deflate; server_max_window_bits=9; server_max_window_bits=9",
        "permessage-deflate; client_max_window_bits; client_max_window_bits", "permessage-deflat"}) {
    EXPECT_EQ(ask({offer}).outcome, Outcome::none) << offer;
  }
}

TEST(Negotiation, WhatIsNoListOfExtensions) {
  for (const char* field :
       {"permessage-deflate; ", "permessage-deflate;=1", "permessage-deflate; a=", "permessage-deflate; a=\"b",
        "permessage-deflate; a=\"b c\"", "permessage-deflate a", "a=b", "permessage-deflate, ;", "\"a\"", "a;b=\"\""}) {
    EXPECT_EQ(ask({field}).outcome, Outcome::malformed) << field;
    EXPECT_EQ(ask({"permessage-deflate", field}).outcome, Outcome::malformed) << field;
  }
}

}  // namespace
}  // namespace sluice::http::websocket
