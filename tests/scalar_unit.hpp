// A unit as plain as the concept allows: numbers one at a time, in double, up to three rows, in steps of five keys. It shows that
// the loop asks no more of a unit than unit.hpp says, and what a new unit must at least do.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "imbrex/units/unit.hpp"

namespace imbrex_test {

template <class P, class Rule>
class scalar_unit {
public:
    using row_type = imbrex::row_block<typename P::query, typename P::output>;
    using tile_type = imbrex::kv_tile<imbrex::rows<typename P::key>, imbrex::rows<typename P::value>>;
    using index = imbrex::index;
    using position = imbrex::position;
    static constexpr index max_rows = 3;
    static constexpr position kv_step = 5;

    scalar_unit(Rule const& rule, imbrex::head_context const& ctx, index head_dim, index head_dim_v, double scale)
        : rule_{rule}, ctx_{ctx}, head_dim_{head_dim}, head_dim_v_{head_dim_v}, scale_{scale} {}

    void begin(row_type const& r) noexcept {
        rows_ = r;
        m_.fill(-INFINITY), m_next_ = m_;
        l_.fill(0);
        for (auto& o : o_) o.assign(static_cast<std::size_t>(head_dim_v_), 0.0);
    }
    position q_first() const noexcept { return position_of(0); }
    position q_last() const noexcept { return position_of(rows_.count - 1); }

    void score(tile_type const& tile, imbrex::tile_window const& w, imbrex::coverage) noexcept {
        EXPECT_EQ(w.kv_begin % kv_step, 0);
        keys_ = w.kv_end - w.kv_begin;
        for (index r = 0; r < rows_.count; ++r) {
            s_[r].assign(static_cast<std::size_t>(keys_), -INFINITY);
            for (index j = 0; j < keys_; ++j) {
                imbrex::row_context<position> const at{ctx_, static_cast<position>(ctx_.head_first + rows_.head(r))};
                auto const kv = static_cast<position>(w.kv_begin + j);
                if (!keeps(rule_, at, position_of(r), kv)) continue;
                double dot = 0;
                for (index d = 0; d < head_dim_; ++d) dot += imbrex::to_double(rows_.query(r)[d]) * imbrex::to_double(tile.keys.row(j)[d]);
                s_[r][static_cast<std::size_t>(j)] = scale_ * dot;
                m_next_[r] = std::max(m_next_[r], scale_ * dot);
            }
        }
    }
    void absorb() noexcept {
        for (index r = 0; r < rows_.count; ++r) {
            shrink_[r] = m_[r] == m_next_[r] ? 1 : std::exp(m_[r] - m_next_[r]);
            m_[r] = m_next_[r];
            l_[r] *= shrink_[r];
            for (double& s : s_[r]) l_[r] += s = s == -INFINITY ? 0 : std::exp(s - m_[r]);
        }
    }
    void accumulate(tile_type const& tile) noexcept {
        for (index r = 0; r < rows_.count; ++r) {
            for (double& o : o_[r]) o *= shrink_[r];
            for (index j = 0; j < keys_; ++j) {
                double const p = s_[r][static_cast<std::size_t>(j)];
                for (index d = 0; d < head_dim_v_ && p > 0; ++d) o_[r][static_cast<std::size_t>(d)] += p * imbrex::to_double(tile.values.row(j)[d]);
            }
        }
    }
    void finish(row_type const& r) noexcept {
        for (index i = 0; i < r.count; ++i) {
            for (index d = 0; d < head_dim_v_; ++d) {
                double const o = l_[i] == 0 ? 0 : o_[i][static_cast<std::size_t>(d)] / l_[i];
                r.output(i)[d] = static_cast<typename P::output>(static_cast<float>(o));
            }
            if (r.lse != nullptr) *r.log_sum_exp(i) = l_[i] == 0 ? -INFINITY : static_cast<float>(m_[i] + std::log(l_[i]));
        }
    }

private:
    template <class X>
    struct of_row : std::array<X, max_rows> {
        X& operator[](index r) noexcept { return std::array<X, max_rows>::operator[](static_cast<std::size_t>(r)); }
    };
    position position_of(index r) const noexcept { return static_cast<position>(ctx_.query_offset() + rows_.token(r)); }

    Rule const& rule_;
    imbrex::head_context const& ctx_;
    index head_dim_, head_dim_v_;
    double scale_;
    row_type rows_{};
    index keys_ = 0;
    of_row<double> m_{}, m_next_{}, l_{}, shrink_{};
    of_row<std::vector<double>> s_{}, o_{};
};

}    // namespace imbrex_test
