// A job's connections to the keeper of its GPU's pages (devices/cuda/page_keeper.py), which is started when there is
// none.
//
// Requests are packets of words, answered by a packet of words and file descriptors. The keeper answers without waiting
// for any job. A keeper that died is replaced at the next request; what it made stays with the jobs that have it.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "../../native/board.h"

namespace neaptide::cuda {

/// A connected socket; closes itself, and is closed in a forked child. Movable.
class KeeperSocket {
 public:
  KeeperSocket() = default;
  /// Connects to the keeper of the board, starting one with `command` when there is none. Throws DriverError.
  KeeperSocket(const Board& board, const std::vector<std::string>& command);
  KeeperSocket(KeeperSocket&& other) noexcept;
  KeeperSocket& operator=(KeeperSocket&& other) noexcept;
  ~KeeperSocket();

  bool connected() const { return descriptor_ >= 0; }
  int descriptor() const { return descriptor_; }
  /// False when the keeper is gone.
  bool send(const std::vector<std::uint32_t>& words) const;
  /// Waits for a packet, whose descriptors are appended. Empty when the keeper is gone.
  std::vector<std::uint32_t> receive(std::vector<int>* descriptors) const;
  void close();

 private:
  int descriptor_ = -1;
};

class KeeperLine {
 public:
  /// A request has at most so many pages: a packet carries no more descriptors.
  static constexpr std::size_t kMostShared = 128;

  /// Connects. Throws DriverError when no keeper can be started.
  KeeperLine(const Board& board, std::vector<std::string> command);

  /// Has up to so many pages made, which are free then; returns how many were.
  std::uint32_t make(std::uint32_t pages);
  /// A descriptor of each page, which the caller closes; -1 for a page that this keeper did not make.
  std::vector<int> share(const std::vector<std::uint32_t>& pages);
  /// A connection on which the keeper says that pages retire, and its end, that the keeper is gone.
  KeeperSocket listen() const;
  /// Answers such a word: this process has no handles of retiring pages any more.
  static bool say_swept(const KeeperSocket& line);

 private:
  std::vector<std::uint32_t> ask(const std::vector<std::uint32_t>& request, std::vector<int>* descriptors);

  const Board& board_;
  const std::vector<std::string> command_;
  std::mutex mutex_;  // one request at a time; a leaf
  KeeperSocket line_;
};

}  // namespace neaptide::cuda
