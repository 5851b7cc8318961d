// The board's file: creating, checking and mapping it.
#pragma once

#include <optional>
#include <string>

#include "board.h"
#include "board_layout.h"
#include "process.h"

namespace neaptide {

/// A checked and mapped board file. A forked child does not have the mapping.
class BoardFile {
 public:
  /// Opens the file; creates it when there is none and a configuration is given. Throws BoardError.
  BoardFile(const std::string& path, const std::optional<BoardConfig>& config);
  BoardFile(const BoardFile&) = delete;
  BoardFile& operator=(const BoardFile&) = delete;
  ~BoardFile();

  BoardLayout& layout() const { return *layout_; }
  bool forked() const noexcept { return guard_.forked(); }

 private:
  ForkGuard guard_;
  BoardLayout* layout_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace neaptide
