// Rotary position embedding: Su et al. 2021, arXiv:2104.09864. Fused into the writers of new keys (append.hpp), and for queries.
//
// Pair i of a row, (a, b), is turned by the angle t = position * frequencies[i]:  a cos t - b sin t,  b cos t + a sin t.
// Which numbers are a pair, for 0 <= i < rotary_dim / 2:
//   interleaved   2 i and 2 i + 1                (GPT-J; Llama as published and in ggml's "normal" mode)
//   halves        i and i + rotary_dim / 2       (GPT-NeoX; Llama in Hugging Face's layout)
// Numbers from rotary_dim on stay as they are (partial rotary).
//
// Angles are taken in double and their sines rounded once to float: right to an ulp at any position, where engines that
// multiply in float are off by 4e-3 at position 1e5. Who needs their digits gives tables.
#pragma once

#include <cmath>
#include <span>

#include "imbrex/simd.hpp"
#include "imbrex/status.hpp"

namespace imbrex {

enum class rope_pairs : std::int8_t { interleaved, halves };

// Spans are the caller's memory, and live as long as calls use them.
struct rope {
    rope_pairs pairs = rope_pairs::halves;
    index rotary_dim = 0;                    // even, at most head_dim; 0 without frequencies and tables: turns nothing
    std::span<float const> frequencies{};    // rotary_dim / 2, radians a position; see rope_frequencies
    std::span<float const> cosines{};        // instead of frequencies: rows of rotary_dim / 2 for positions 0, 1, ...
    std::span<float const> sines{};          // as many
    float magnitude = 1;                     // of sines and cosines that come from frequencies (YaRN's attention factor)

    constexpr index half() const noexcept { return rotary_dim / 2; }
    constexpr bool has_tables() const noexcept { return !cosines.empty() || !sines.empty(); }
    // Positions that the tables have rows for.
    constexpr index table_rows() const noexcept {
        auto const entries = static_cast<index>(cosines.size() < sines.size() ? cosines.size() : sines.size());
        return rotary_dim < 2 ? 0 : entries / half();
    }

    // Whether it can turn rows of head_dim numbers at positions in [first, last].
    status check(index head_dim, position first, position last) const noexcept {
        if (rotary_dim < 0 || rotary_dim % 2 != 0 || rotary_dim > head_dim) return {errc::rope_dim, rotary_dim, head_dim};
        if (rotary_dim == 0) return has_tables() || !frequencies.empty() ? status{errc::rope_dim, 0, head_dim} : status{};
        if (!has_tables()) {
            auto const given = static_cast<index>(frequencies.size());
            return given < half() ? status{errc::rope_frequencies_short, given, half()} : status{};
        }
        if (first < 0 || last >= table_rows()) return {errc::rope_position, first < 0 ? first : last, table_rows()};
        return {};
    }
};

}    // namespace imbrex

IMBREX_ISA_BEGIN

// to[i] = theta^(-2 i / rotary_dim) / factors[i] for i < to.size(), rotary_dim being 2 to.size(). factors (Llama 3, LongRoPE;
// ggml's freq_factors) may be empty: 1.
inline void rope_frequencies(double theta, std::span<float const> factors, std::span<float> to) noexcept {
    for (std::size_t i = 0; i < to.size(); ++i) {
        double const plain = std::pow(theta, -static_cast<double>(i) / static_cast<double>(to.size()));
        to[i] = static_cast<float>(i < factors.size() ? plain / static_cast<double>(factors[i]) : plain);
    }
}

// The sines and cosines of one position, which all heads of a token share.
class rope_turn {
public:
    // Looked up, or computed into this object.
    void to(rope const& r, position at) noexcept {
        half_ = r.half();
        pairs_ = r.pairs;
        if (half_ == 0) return;
        if (r.has_tables()) {
            cosines_ = r.cosines.data() + at * half_;
            sines_ = r.sines.data() + at * half_;
            return;
        }
        for (index i = 0; i < half_; ++i) {
            double const angle = static_cast<double>(at) * static_cast<double>(r.frequencies[static_cast<std::size_t>(i)]);
            own_cosines_[i] = static_cast<float>(std::cos(angle)) * r.magnitude;
            own_sines_[i] = static_cast<float>(std::sin(angle)) * r.magnitude;
        }
        cosines_ = own_cosines_, sines_ = own_sines_;
    }

    // In place.
    void turn(float* row) const noexcept {
        bool const apart = pairs_ == rope_pairs::halves;
        index const step = apart ? 1 : 2, other = apart ? half_ : 1;
        for (index i = 0; i < half_; ++i) {
            float const a = row[i * step], b = row[i * step + other];
            row[i * step] = a * cosines_[i] - b * sines_[i];
            row[i * step + other] = b * cosines_[i] + a * sines_[i];
        }
    }

private:
    index half_ = 0;
    rope_pairs pairs_ = rope_pairs::halves;
    float const* cosines_ = nullptr;
    float const* sines_ = nullptr;
    float own_cosines_[max_head_dim / 2];
    float own_sines_[max_head_dim / 2];
};

IMBREX_ISA_END
