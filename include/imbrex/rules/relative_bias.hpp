// A learned number per head and distance between query and key.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>

#include "imbrex/rules/operands.hpp"
#include "imbrex/simd/elementwise.hpp"

namespace imbrex {

// s = s + table[head][clamp(kv - q, -max_distance, max_distance) + max_distance] for positions q and kv.
// table: heads rows of 2 max_distance + 1 finite numbers, one row per query head or one that serves all.
struct relative_bias {
    static constexpr score_stage stage = score_stage::bias;

    std::span<float const> table;
    index heads;
    position max_distance;

    template <class Ctx, class S, class Q, class K>
    IMBREX_ALWAYS_INLINE S transform(Ctx const& ctx, S const& s, Q const& q, K const& kv) const noexcept {
        auto const& head = ctx.head();
        auto const offset = kv - q;
        using D = std::remove_const_t<decltype(offset)>;
        if constexpr (is_lanes<std::remove_cvref_t<decltype(head)>>) {
            return added<S>(s, lanewise_score<S>([this](auto h, auto d, auto) noexcept { return at(h, d); }, head, offset, 0));
        } else if constexpr (is_lanes<D>) {
            // Decision: a branch where all lanes are far apart, as in most tiles of a long sequence: one load there, not a
            // gather.
            using I = typename scalar_of<D>::type;
            D const most(static_cast<I>(max_distance));
            if (xsimd::all(offset >= most)) return added<S>(s, S(row(head)[max_distance]));
            if (xsimd::all(offset <= -most)) return added<S>(s, S(row(head)[-max_distance]));
            return added<S>(s, gather<S>(row(head), xsimd::max(D(-most), xsimd::min(most, offset))));
        } else {
            return added<S>(s, S(at(head, offset)));
        }
    }

    constexpr status check(call_shape const& call) const noexcept {
        constexpr auto operand = rule_operand::relative_bias;
        if (max_distance < 0 || max_distance > max_length / 2) return operands::bad_value(operand, max_distance, 0);
        if (heads != call.q_heads && heads != 1) return {errc::rule_axis, 1, heads, call.q_heads};
        return operands::check_count(operand, table.size(), heads * (2 * index{max_distance} + 1));
    }

private:
    template <class S>
    static IMBREX_ALWAYS_INLINE S added(S const& s, S const& value) noexcept {
        return hidden_as<S>(s, s + value);
    }
    // Of key - query = 0.
    constexpr float const* row(index head) const noexcept {
        index const width = 2 * index{max_distance} + 1;
        return table.data() + ((heads == 1 ? 0 : head * width) + max_distance);
    }
    constexpr float at(index head, index offset) const noexcept {
        return row(head)[std::clamp<index>(offset, -max_distance, max_distance)];
    }
};

// Whether keys after the query have buckets of their own (T5's encoder), or all share that of distance 0 (its decoder).
enum class t5_direction { bidirectional, unidirectional };

// The bucket of key - query = offset: Raffel et al. 2020, arXiv:1910.10683, as in T5's relative_position_bucket. Half of the
// buckets of a direction hold one distance each, the others ever longer spans, in equal steps of the logarithm, up to
// max_distance.
inline index t5_bucket(index offset, index buckets, index max_distance, t5_direction direction) noexcept {
    index first = 0, distance = std::max<index>(0, -offset);
    if (direction == t5_direction::bidirectional) {
        buckets /= 2;
        first = offset > 0 ? buckets : 0;
        distance = std::abs(offset);
    }
    index const exact = buckets / 2;
    if (distance < exact) return first + distance;
    if (distance >= max_distance || exact == 0) return first + buckets - 1;
    double const wide = static_cast<double>(exact);
    double const step = std::log(static_cast<double>(distance) / wide) / std::log(static_cast<double>(max_distance) / wide);
    index const beyond = static_cast<index>(step * static_cast<double>(buckets - exact));
    return first + std::min(buckets - 1, exact + beyond);
}

// T5's weights [buckets][heads] as the table of a relative_bias of max_distance, in the caller's memory:
// out: heads x (2 max_distance + 1).
inline relative_bias t5_relative_bias(std::span<float const> weights, index heads, index buckets, position max_distance,
                                      t5_direction direction, std::span<float> out) noexcept {
    index const width = 2 * index{max_distance} + 1;
    bool const fits = static_cast<index>(weights.size()) >= buckets * heads && static_cast<index>(out.size()) >= heads * width;
    if (!fits || buckets < 2 || max_distance < 1) return {{}, heads, max_distance};    // which a call refuses, as too short
    for (index i = 0; i < width; ++i) {
        index const bucket = t5_bucket(i - max_distance, buckets, max_distance, direction);
        for (index h = 0; h < heads; ++h) {
            out[static_cast<std::size_t>(h * width + i)] = weights[static_cast<std::size_t>(bucket * heads + h)];
        }
    }
    return {out, heads, max_distance};
}

}    // namespace imbrex
