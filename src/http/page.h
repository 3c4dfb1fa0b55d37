#pragma once

#include <memory>
#include <string>

#include "http/handler.h"
#include "http/request.h"
#include "http/response.h"

namespace sluice::http {

// A text that is served whole: a web page, or a document for programs. Immutable; created once, shared by all cores.
class Page : public std::enable_shared_from_this<Page> {
 public:
  // A page that stands alone: browsers run its own <script> and <style> elements, which have no attributes, and
  // nothing else. It may send requests to its own origin.
  [[nodiscard]] static std::shared_ptr<const Page> html(std::string text);
  [[nodiscard]] static std::shared_ptr<const Page> json(std::string text);

  // The text with a strong ETag, or 304 if the client already has it.
  [[nodiscard]] Response answer(const Request& request) const;

 private:
  Page(std::string text, std::string content_type, std::string policy);

  std::string text_;
  std::string content_type_;
  std::string policy_;  // Content-Security-Policy; empty: not a web page
  std::string tag_;
};

// Answers GET with a page.
class PageHandler final : public Handler {
 public:
  explicit PageHandler(std::shared_ptr<const Page> page) : page_(std::move(page)) {}

  [[nodiscard]] core::Async<Response> handle(Exchange& exchange) override;

 private:
  std::shared_ptr<const Page> page_;
};

}  // namespace sluice::http
