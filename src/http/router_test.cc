#include "http/router.h"

#include <algorithm>
#include <map>
#include <string>

#include <gtest/gtest.h>

namespace sluice::http {
namespace {

struct Named : Handler {
  core::Async<Response> handle(Request&) override { return Response{}; }
};

class RouterTest : public testing::Test {
 public:
  bool add(std::string_view pattern, std::vector<Method> methods = {Method::get}, bool formats = false,
           bool upgrades = false) {
    Router::Route route{.pattern = *Pattern::parse(pattern), .formats = formats, .upgrades = upgrades, .id = ++routes};
    for (const Method method : methods) route.handlers[static_cast<std::size_t>(method)] = &handler;
    if (!router.add(route)) return false;
    names[routes] = pattern;
    return true;
  }
  // A slash that came encoded is a NUL in the path, as in Request::segments.
  Response ask(std::string_view path, Method method = Method::get, Version version = Version::http11,
               std::string_view upgrade = {}) {
    exchange.reset();
    request = {};
    request.method = method;
    request.version = version;
    request.upgrade = upgrade;
    segments = path;
    decoded = path;
    std::ranges::replace(decoded, '\0', '/');
    request.segments = segments;
    request.path = decoded;
    Response response = router.dispatch(exchange).take();
    exchange.end({});
    return response;
  }
  // The pattern that answers, "404" or "405".
  std::string match(std::string_view path, Method method = Method::get) {
    const Response response = ask(path, method);
    if (response.status != 200) return std::to_string(response.status);
    return names[request.route];
  }

  Named handler;
  Router router;
  Exchange exchange;
  Request& request = exchange.request;
  std::string segments;
  std::string decoded;
  std::uint16_t routes = 0;
  std::map<int, std::string> names;
};

TEST_F(RouterTest, SpecificityDecidesNotOrder) {
  for (const char* pattern : {"/{rest...}", "/films/{slug}", "/films/{id:int}", "/films/new", "/films/{slug}/tags",
                              "/films/{id:int}/{what}", "/"}) {
    ASSERT_TRUE(add(pattern)) << pattern;
  }
  EXPECT_EQ(match("/"), "/");
  EXPECT_EQ(match("/films/new"), "/films/new");
  EXPECT_EQ(match("/films/12"), "/films/{id:int}");
  EXPECT_EQ(match("/films/-12"), "/films/{id:int}");
  EXPECT_EQ(match("/films/0"), "/films/{id:int}");
  for (const char* other : {"/films/012", "/films/00", "/films/-0", "/films/+12", "/films/-012"}) {
    EXPECT_EQ(match(other), "/films/{slug}") << other;
  }
  EXPECT_EQ(match("/films/12a"), "/films/{slug}");
  EXPECT_EQ(match("/films/new/tags"), "/films/{slug}/tags") << "a literal that leads nowhere must not win";
  EXPECT_EQ(match("/films/12/tags"), "/films/{id:int}/{what}");
  EXPECT_EQ(match("/films/12/tags/x"), "/{rest...}");
  EXPECT_EQ(match("/films/"), "/{rest...}");
  EXPECT_EQ(match("/else/where"), "/{rest...}");
}

TEST_F(RouterTest, ValuesAreThoseOfTheRouteThatWins) {
  ASSERT_TRUE(add("/a/{x}/b/{y}"));
  ASSERT_TRUE(add("/a/{x}/{rest...}"));
  ASSERT_EQ(match("/a/1/b/2"), "/a/{x}/b/{y}");
  EXPECT_EQ(request.path_values[0], "1");
  EXPECT_EQ(request.path_values[1], "2");
  ASSERT_EQ(match("/a/1/b/2/3"), "/a/{x}/{rest...}");
  EXPECT_EQ(request.path_values[0], "1");
  EXPECT_EQ(request.path_values[1], "b/2/3");
}

TEST_F(RouterTest, AnEmptySegmentIsForFoldersOnly) {
  struct Refusing : Filter {
    core::Async<std::optional<Response>> before(Exchange&, Slot&) override { return std::optional(problem(401, "no")); }
  } filter;
  const auto handlers = [&] {
    Router::Route route{.pattern = *Pattern::parse("/guarded"), .id = 9, .filters = {&filter}};
    route.handlers[0] = &handler;
    return route;
  };
  ASSERT_TRUE(router.add(handlers()));
  Router::Route folder{.pattern = *Pattern::parse("/files/{file...}"), .folder = true, .id = 8};
  folder.handlers[0] = &handler;
  ASSERT_TRUE(router.add(folder));
  ASSERT_TRUE(add("/{rest...}"));
  const auto ask_merged = [&](std::string_view path) {
    exchange.reset();
    request = {};
    request.path = request.segments = path;
    request.has_empty_segment = true;
    const int answered = router.dispatch(exchange).take().status;
    exchange.end({});
    return answered;
  };
  EXPECT_EQ(ask_merged("/a/b"), 404);
  EXPECT_EQ(ask_merged("/"), 404);
  EXPECT_EQ(ask_merged("/files/a/b"), 200);
  EXPECT_EQ(ask_merged("/guarded"), 401) << "not before its policy";
}

TEST_F(RouterTest, FormatsAreTakenOffTheEnd) {
  ASSERT_TRUE(add("/films", {Method::get}, true));
  ASSERT_TRUE(add("/films/{slug}", {Method::get}, true));
  ASSERT_TRUE(add("/films/{id:int}", {Method::get}, true));
  ASSERT_TRUE(add("/plain/{slug}"));
  ASSERT_TRUE(add("/plain/{id:int}"));
  EXPECT_EQ(match("/films.csv"), "/films");
  EXPECT_EQ(request.extension, ".csv");
  EXPECT_EQ(match("/films/heat.ndjson"), "/films/{slug}");
  EXPECT_EQ(request.path_values[0], "heat");
  EXPECT_EQ(request.extension, ".ndjson");
  EXPECT_EQ(match("/films/7.json"), "/films/{id:int}");
  EXPECT_EQ(request.path_values[0], "7");
  EXPECT_EQ(match("/films/heat.txt"), "/films/{slug}");
  EXPECT_EQ(request.path_values[0], "heat.txt");
  EXPECT_EQ(request.extension, "");
  EXPECT_EQ(match("/plain/7.csv"), "/plain/{slug}");
  EXPECT_EQ(request.path_values[0], "7.csv");
  EXPECT_EQ(match("/films.txt"), "404");
  EXPECT_EQ(match("/films/.csv"), "/films/{slug}");
  EXPECT_EQ(request.path_values[0], ".csv");
}

TEST_F(RouterTest, AnEncodedSlashIsPartOfAValue) {
  ASSERT_TRUE(add("/films/{slug}", {Method::get}, true));
  ASSERT_TRUE(add("/films/{slug}/{what}"));
  ASSERT_TRUE(add("/films/a/b"));
  ASSERT_TRUE(add("/numbers/{n:int}"));
  ASSERT_TRUE(add("/all/{rest...}"));
  using namespace std::string_view_literals;
  ASSERT_EQ(match("/films/a\0b"sv), "/films/{slug}");
  EXPECT_EQ(request.path_values[0], "a/b");
  ASSERT_EQ(match("/films/a\0b/c\0"sv), "/films/{slug}/{what}");
  EXPECT_EQ(request.path_values[0], "a/b");
  EXPECT_EQ(request.path_values[1], "c/");
  ASSERT_EQ(match("/films/\0"sv), "/films/{slug}");
  EXPECT_EQ(request.path_values[0], "/");
  ASSERT_EQ(match("/films/a\0b.csv"sv), "/films/{slug}");
  EXPECT_EQ(request.path_values[0], "a/b");
  EXPECT_EQ(request.extension, ".csv");
  ASSERT_EQ(match("/all/a\0b/c/..\0d"sv), "/all/{rest...}");
  EXPECT_EQ(request.path_values[0], "a/b/c/../d");
  EXPECT_EQ(match("/films\0a"sv), "404");
  EXPECT_EQ(match("/numbers/1\0002"sv), "404");
  EXPECT_EQ(match("/numbers\0001"sv), "404");
}

TEST_F(RouterTest, AnotherMethodIs405WithAllow) {
  ASSERT_TRUE(add("/x", {Method::get, Method::delete_}));
  EXPECT_EQ(match("/x", Method::head), "/x");
  const Response refused = ask("/x", Method::post);
  EXPECT_EQ(refused.status, 405);
  EXPECT_EQ(refused.fields.get("allow"), "GET, HEAD, DELETE, OPTIONS");
  for (const char* path : {"/x", "/y"}) {
    EXPECT_EQ(ask(path, Method::other).status, 501);
  }
  EXPECT_EQ(ask("/x", Method::trace).status, 405);
  EXPECT_EQ(ask("/y", Method::trace).status, 404);
  const Response options = ask("/x", Method::options);
  EXPECT_EQ(options.status, 204);
  EXPECT_EQ(options.fields.get("allow"), "GET, HEAD, DELETE, OPTIONS");
  EXPECT_EQ(ask("/y", Method::options).status, 404);
}

TEST_F(RouterTest, ConnectIsForHttp2AndForAProtocol) {
  const auto connect = [this](std::string_view path, std::string_view protocol) {
    return ask(path, Method::connect, Version::http2, protocol);
  };
  ASSERT_TRUE(add("/talk", {Method::get, Method::connect}, false, true));
  ASSERT_TRUE(add("/both", {Method::get, Method::connect}));
  ASSERT_TRUE(add("/plain"));
  EXPECT_EQ(connect("/talk", "websocket").status, 200);
  EXPECT_EQ(request.route, 1);
  EXPECT_EQ(connect("/none", "websocket").status, 404);
  EXPECT_EQ(connect("/plain", "websocket").status, 405);
  EXPECT_EQ(connect("/plain", "websocket").fields.get("allow"), "GET, HEAD, OPTIONS");
  // To an authority, as a proxy is asked.
  EXPECT_EQ(connect("", "").status, 501);
  EXPECT_EQ(ask("", Method::connect).status, 501);

  // What is allowed depends on the version.
  EXPECT_EQ(ask("/talk").status, 200);
  EXPECT_EQ(ask("/talk", Method::post).fields.get("allow"), "GET, HEAD, OPTIONS");
  EXPECT_EQ(ask("/talk", Method::options).fields.get("allow"), "GET, HEAD, OPTIONS");
  for (const Method method : {Method::get, Method::head, Method::post}) {
    const Response refused = ask("/talk", method, Version::http2);
    EXPECT_EQ(refused.status, 405);
    EXPECT_EQ(refused.fields.get("allow"), "CONNECT, OPTIONS");
  }
  EXPECT_EQ(ask("/talk", Method::options, Version::http2).fields.get("allow"), "CONNECT, OPTIONS");
  EXPECT_EQ(ask("/both", Method::get, Version::http2).status, 200);
  EXPECT_EQ(ask("/both", Method::post, Version::http2).fields.get("allow"), "GET, HEAD, CONNECT, OPTIONS");
}

TEST_F(RouterTest, AFilterIsAskedForEveryMethodOfItsRouteAlone) {
  struct Guard final : Filter {
    core::Async<std::optional<Response>> before(Exchange& exchange, Slot&) override {
      ++asked;
      EXPECT_NE(exchange.request.route, 0) << "for counting";
      if (!refuses) return std::optional<Response>();
      return std::optional(problem(401));
    }
    bool refuses = true;
    int asked = 0;
  } guard;
  Router::Route route{.pattern = *Pattern::parse("/guarded/{x}"), .upgrades = true, .id = 100, .filters = {&guard}};
  route.handlers[static_cast<std::size_t>(Method::get)] = &handler;
  route.handlers[static_cast<std::size_t>(Method::connect)] = &handler;
  ASSERT_TRUE(router.add(route));
  ASSERT_TRUE(add("/guarded/open"));
  ASSERT_TRUE(add("/guarded"));
  const Method all[] = {Method::get,   Method::head,    Method::post,  Method::put,  Method::delete_,
                        Method::patch, Method::options, Method::trace, Method::other};
  for (const Method method : all) EXPECT_EQ(ask("/guarded/a", method).status, 401) << name_of(method);
  EXPECT_EQ(ask("/guarded/a", Method::connect, Version::http2, "websocket").status, 401);
  EXPECT_EQ(guard.asked, 10);
  EXPECT_EQ(ask("/guarded").status, 200);
  EXPECT_EQ(ask("/guarded/open").status, 200);
  EXPECT_EQ(ask("/guarded/a/b").status, 404);
  EXPECT_EQ(guard.asked, 10);
  guard.refuses = false;
  EXPECT_EQ(ask("/guarded/a").status, 200);
  EXPECT_EQ(ask("/guarded/a", Method::post).status, 405);
  EXPECT_EQ(ask("/guarded/a", Method::options).status, 204);
}

TEST_F(RouterTest, APreflightPassesTheRoutesFilters) {
  struct Guard final : Filter {
    core::Async<std::optional<Response>> before(Exchange&, Slot&) override { return std::optional(problem(401)); }
  } guard;
  Router::Route route{.pattern = *Pattern::parse("/guarded"), .id = 1, .filters = {&guard}};
  // Even a handler of OPTIONS would not run.
  for (const Method method : {Method::get, Method::put, Method::options}) {
    route.handlers[static_cast<std::size_t>(method)] = &handler;
  }
  ASSERT_TRUE(router.add(route));
  const auto status = [this](Method method, std::vector<Field> fields, std::string_view path = "/guarded") {
    exchange.reset();
    request = {};
    request.method = method;
    request.path = request.segments = path;
    request.fields = fields;
    const int answered = router.dispatch(exchange).take().status;
    exchange.end({});
    return answered;
  };
  const Field origin{"Origin", "https://a.example"};
  const Field wanted{"access-control-request-method", "PUT"};
  EXPECT_EQ(status(Method::options, {origin, wanted}), 204);
  EXPECT_EQ(status(Method::options, {origin, wanted}, "/none"), 404);
  EXPECT_EQ(status(Method::options, {origin}), 401);
  EXPECT_EQ(status(Method::options, {wanted}), 401);
  for (const Method method : {Method::get, Method::head, Method::put, Method::post, Method::trace}) {
    EXPECT_EQ(status(method, {origin, wanted}), 401) << name_of(method);
  }
}

TEST_F(RouterTest, AFolderIsFoundWithoutItsSlash) {
  const auto add_folder = [this](const char* pattern, bool folder) {
    Router::Route route{.pattern = *Pattern::parse(pattern), .folder = folder, .id = ++routes};
    route.handlers[static_cast<std::size_t>(Method::get)] = &handler;
    names[routes] = pattern;
    return router.add(route);
  };
  ASSERT_TRUE(add_folder("/{file...}", true));
  ASSERT_TRUE(add_folder("/f/{file...}", true));
  ASSERT_TRUE(add_folder("/f/g/{file...}", true));
  ASSERT_TRUE(add_folder("/own/{file...}", true));
  ASSERT_TRUE(add_folder("/other/{rest...}", false));
  ASSERT_TRUE(add("/own"));
  ASSERT_TRUE(add("/{slug}"));
  for (const auto& [path, pattern, value] :
       std::initializer_list<std::array<const char*, 3>>{{"/f", "/f/{file...}", ""},
                                                         {"/f/", "/f/{file...}", ""},
                                                         {"/f/x", "/f/{file...}", "x"},
                                                         {"/f/g", "/f/g/{file...}", ""},
                                                         {"/f/gg", "/f/{file...}", "gg"},
                                                         {"/other", "/{slug}", "other"},
                                                         {"/ff", "/{slug}", "ff"}}) {
    EXPECT_EQ(match(path), pattern) << path;
    EXPECT_EQ(request.path_values[0], value) << path;
  }
  EXPECT_EQ(match("/own"), "/own");
}

TEST_F(RouterTest, TheSameShapeTwiceIsRefused) {
  EXPECT_TRUE(add("/a/{x}"));
  EXPECT_FALSE(add("/a/{y}"));
  EXPECT_TRUE(add("/a/{x:int}"));
  EXPECT_TRUE(add("/{rest...}"));
  EXPECT_FALSE(add("/{other...}"));
}

TEST(Pattern, RefusesWhatIsNone) {
  for (const char* text : {"", "films", "/{", "/}", "/a{b}", "/{}", "/{1a}", "/{a:float}", "/{a...}/b", "/{a}/{a}",
                           "//a", "/a//b", "/a/../b", "/{a b}", "/.", "/{a:int...}"}) {
    EXPECT_FALSE(Pattern::parse(text)) << text;
  }
  for (const char* text : {"/", "/a", "/a/", "/{a}", "/{a:int}/x", "/{a...}", "/a.b/{c_1}"}) {
    EXPECT_TRUE(Pattern::parse(text)) << text;
  }
}

}  // namespace
}  // namespace sluice::http
