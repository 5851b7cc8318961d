// The board's file: making, checking and mapping it.
//
// A file is made whole beside its path and then linked there, never over another; it is never made anew in place. The
// daemon makes it, under its lock; jobs open it. What the file says of itself is read once, when it is opened.
#pragma once

#include <memory>
#include <string>

#include "board.h"
#include "board_layout.h"
#include "board_mappings.h"
#include "process.h"
#include "slot_locks.h"

namespace neaptide {

struct DeviceRegion;

/// Closes a file at its end, unless this is a forked child, where the number may mean another file.
class OpenFile {
 public:
  OpenFile(const std::string& path, int flags);
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile();
  int get() const { return descriptor_; }
  bool forked() const noexcept { return guard_.forked(); }

 private:
  ForkGuard guard_;
  int descriptor_;
};

/// A checked and mapped board file. A forked child does not have the mapping.
class BoardFile {
 public:
  /// Makes a new file; false when there is one at this path already. Throws BoardError.
  static bool create(const std::string& path, const BoardConfig& config);
  /// Opens a file. Throws BoardError.
  explicit BoardFile(const std::string& path);
  BoardFile(const BoardFile&) = delete;
  BoardFile& operator=(const BoardFile&) = delete;
  ~BoardFile();

  BoardLayout& layout() const { return *layout_; }
  SlotLocks& locks() { return locks_; }
  int descriptor() const { return file_.get(); }
  bool forked() const noexcept { return file_.forked(); }
  /// What the file said when it was opened: its device's region, null when there is none, what that was made with, and
  /// the size of a chunk.
  const DeviceRegion* region() const { return region_; }
  std::uint64_t region_setting() const { return region_setting_; }
  std::uint64_t chunk_bytes() const { return chunk_bytes_; }
  /// Whether the path still names this file. Changes nothing.
  bool is_at(const std::string& path) const;
  /// Writes again what the file says of itself, if that was damaged.
  void restore_header();

 private:
  OpenFile file_;
  SlotLocks locks_;
  const DeviceRegion* region_ = nullptr;
  std::uint64_t region_setting_ = 0;
  std::uint64_t chunk_bytes_ = kSmallChunkBytes;
  BoardLayout* layout_ = nullptr;
  std::size_t bytes_ = 0;
  std::unique_ptr<KnownMapping> mapping_;
};

}  // namespace neaptide
