#pragma once

#include <memory>
#include <string>

#include "http/server.h"

namespace sluice::api::openapi {

// The bytes of a document and its ETag. Created once, shared by all cores.
struct Published {
  explicit Published(std::string document);

  std::string text;
  std::string tag;  // a strong ETag
};

// Answers GET with the document, or with 304 if the client already has it.
class DocumentHandler final : public http::Handler {
 public:
  explicit DocumentHandler(std::shared_ptr<const Published> published) : published_(std::move(published)) {}

  [[nodiscard]] core::Async<http::Response> handle(http::Exchange& exchange) override;

 private:
  std::shared_ptr<const Published> published_;
};

}  // namespace sluice::api::openapi
