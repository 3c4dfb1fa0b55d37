#pragma once

#include <string>
#include <vector>

#include "http/response.h"

namespace sluice::http {

class Exchange;

// Shows errors to people: a request that prefers HTML, as those of browsers do, gets a page instead of
// application/problem+json. Immutable; shared by exchanges.
class ErrorPages {
 public:
  struct Page {
    int of = 0;        // a status, or the first digit of one for all others of its class
    std::string html;  // {status}, {title}, {detail} and {request_id} stand for those of the error
  };
  // Own pages, instead of a plain one.
  explicit ErrorPages(std::vector<Page> pages = {}) : pages_(std::move(pages)) {}

  // Replaces the body if it is a problem of this server and the request prefers HTML.
  void show(const Exchange& exchange, Response& response) const;

 private:
  [[nodiscard]] const std::string& page_for(int status) const;

  std::vector<Page> pages_;
};

}  // namespace sluice::http
