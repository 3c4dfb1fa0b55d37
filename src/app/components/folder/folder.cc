#include "app/components/folder/folder.h"

#include "app/config/difference.h"

namespace sluice::app {

FilesComponent::FilesComponent(files::FilesOptions of, std::vector<std::string> api_paths)
    : options(std::move(of)), api_paths_(std::move(api_paths)), root_(FileId::of(options.root.value)) {}

bool FilesComponent::adopts(const FilesComponent& before) const {
  auto as_before = options;
  as_before.use = before.options.use;  // of the route
  as_before.is_public = before.options.is_public;
  return root_ == before.root_ && config::same(as_before, before.options);
}

std::shared_ptr<files::StaticFiles> FilesComponent::make(const core::Here& here, const Parts&) const {
  auto files = std::make_shared<files::StaticFiles>(options, here.reactor, here.mailbox, here.threads);
  files->set_api_paths(api_paths_);
  return files;
}

}  // namespace sluice::app
