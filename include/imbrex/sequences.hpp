// Which tokens of a tensor are one sequence's: those of one entry of the batch axis, or a run of packed tokens.
#pragma once

#include <algorithm>
#include <span>

#include "imbrex/view.hpp"

namespace imbrex {

// A sequence's entry of the batch axis. A batch of 1 serves every sequence, and packed tokens have no other.
constexpr index batch_entry(shape4 const& shape, index sequence) noexcept { return shape.batch == 1 ? 0 : sequence; }

// The tokens [first, first + count) of one sequence: of its entry of the batch axis, or of all packed tokens.
struct token_run {
    index first = 0;
    index count = 0;
};

// The sequences of one side of a call.
class sequence_side {
public:
    constexpr sequence_side() noexcept = default;
    constexpr sequence_side(shape4 const& shape, packed_starts const& starts) noexcept
        : starts_{starts ? starts->data() : nullptr},
          sequences_{starts ? std::ssize(*starts) - 1 : shape.batch},
          tokens_{shape.tokens} {}

    // Sequences that have a length each, after as many tokens that all have.
    constexpr explicit sequence_side(std::span<position const> lengths, index before = 0) noexcept
        : lengths_{lengths.data()}, sequences_{std::ssize(lengths)}, tokens_{before} {}

    // The same sequences, of each of which no more than the last so many tokens are there.
    constexpr sequence_side last(index tokens) const noexcept {
        sequence_side s = *this;
        s.most_held_ = tokens;
        return s;
    }

    constexpr index sequences() const noexcept { return sequences_; }
    constexpr bool of_one_length() const noexcept { return starts_ == nullptr && lengths_ == nullptr; }
    constexpr token_run of(index sequence) const noexcept {
        if (starts_ != nullptr) return {starts_[sequence], index{starts_[sequence + 1]} - starts_[sequence]};
        return {0, lengths_ != nullptr ? tokens_ + lengths_[sequence] : tokens_};
    }
    // Tokens of a sequence that are there; and the most that any can have, of any length.
    constexpr index held(index sequence) const noexcept { return std::min(of(sequence).count, most_held_); }
    constexpr index most_held() const noexcept { return most_held_; }
    constexpr index longest() const noexcept {
        if (of_one_length()) return tokens_;
        index most = 0;
        for (index s = 0; s < sequences_; ++s) most = std::max(most, of(s).count);
        return most;
    }

private:
    position const* starts_ = nullptr;     // null: not packed
    position const* lengths_ = nullptr;    // null: of one length
    index sequences_ = 0;
    index tokens_ = 0;
    index most_held_ = max_length;
};

}    // namespace imbrex
