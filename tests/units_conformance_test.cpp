// What every unit must do, whatever it is made of: one suite over all units of this build, through THE loop alone. Rows, keys and
// head sizes that are no multiple of anything, strides with NaN between the rows, GQA, masks with holes and unseen keys of NaN,
// scratch full of NaN, guard pages around all of it, tiles of any width, kv heads packed or converted tile by tile.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "guard.hpp"
#include "imbrex/imbrex.hpp"
#include "scalar_unit.hpp"

namespace imbrex_test {
namespace {

using imbrex::bf16;
using imbrex::coverage;
using imbrex::index;
using imbrex::position;

struct unit_case {
    index group = 1, q_tokens = 1, keys = 0, head_dim = 16, head_dim_v = 16, kv_cols = 64;
    enum masks { full, causal, holes } mask = causal;
    index rows() const { return group * q_tokens; }
};

std::string text_of(unit_case const& c) {
    std::string t;
    for (auto const& [name, n] : {std::pair{" group ", c.group}, {" tokens ", c.q_tokens}, {" keys ", c.keys}, {" D ", c.head_dim},
                                  {" Dv ", c.head_dim_v}, {" tiles of ", c.kv_cols}, {" mask ", index{c.mask}}}) {
        t += name;
        t += std::to_string(n);
    }
    return t;
}

bool sees(unit_case const& c, position q, position kv) {
    return c.mask == unit_case::full || (kv <= q && (c.mask == unit_case::causal || (q * 7 + kv * 5) % 11 < 6));
}

// The masks as one rule, so that each unit is compiled once.
auto rule_of(unit_case const& c) {
    auto const keep = [c](auto const&, auto const& q, auto const& kv) {
        return imbrex::lanewise_mask([c](auto i, auto j, auto) { return sees(c, static_cast<position>(i), static_cast<position>(j)); }, q, kv, kv);
    };
    auto const classify = [c](imbrex::head_context const&, imbrex::tile_window const& w) {
        if (c.mask == unit_case::full) return coverage::full;
        if (w.kv_begin > w.q_last) return coverage::none;
        return c.mask == unit_case::causal && w.kv_end - 1 <= w.q_first ? coverage::full : coverage::partial;
    };
    return imbrex::mask_fn{keep, classify};
}
using rule_type = decltype(rule_of({}));

// Rows a little further apart than they are long, with NaN between them.
template <class T>
struct spaced_rows {
    index count, n, stride = n + 3;
    guarded<T> memory;
    spaced_rows(index rows, index numbers, guard where)
        : count{rows}, n{numbers}, memory{static_cast<std::size_t>(rows == 0 ? 0 : (rows - 1) * (numbers + 3) + numbers), where} {}
    T* row(index i) const { return memory.data() + i * stride; }
    imbrex::rows<T> rows() const { return {memory.data(), stride}; }
};

template <class P>
struct unit_call {
    unit_case c;
    spaced_rows<typename P::query> q;
    spaced_rows<typename P::key> k;
    spaced_rows<typename P::value> v;
    spaced_rows<typename P::output> out;
    guarded<float> lse;
    imbrex::head_context ctx{0, static_cast<position>(c.q_tokens), static_cast<position>(c.keys), 0, static_cast<position>(c.group)};

    unit_call(unit_case const& of, guard where, std::mt19937& random)
        : c{of},
          q{of.rows(), of.head_dim, where},
          k{of.keys, of.head_dim, where},
          v{of.keys, of.head_dim_v, where},
          out{of.rows(), of.head_dim_v, where},
          lse{static_cast<std::size_t>(of.rows()), where} {
        fill(q, random, [](index) { return true; });
        auto const seen = [this](index j) { return seen_by_any(j); };    // the others stay NaN
        fill(k, random, seen);
        fill(v, random, seen);
    }

    position q_at(index r) const { return static_cast<position>(ctx.query_offset() + r / c.group); }
    bool seen_by_any(index j) const {
        for (index r = 0; r < c.rows(); ++r) {
            if (sees(c, q_at(r), static_cast<position>(j))) return true;
        }
        return false;
    }
    template <class T, class Wanted>
    static void fill(spaced_rows<T> const& x, std::mt19937& random, Wanted const& wanted) {
        std::normal_distribution<double> normal;
        for (index i = 0; i < x.count; ++i) {
            for (index d = 0; d < x.n && wanted(i); ++d) x.row(i)[d] = T(static_cast<float>(normal(random)));
        }
    }

    imbrex::row_block<typename P::query, typename P::output> rows() const {
        imbrex::row_block<typename P::query, typename P::output> r;
        r.q = q.memory.data(), r.q_token = c.group * q.stride, r.q_head = q.stride;
        r.out = out.memory.data(), r.out_token = c.group * out.stride, r.out_head = out.stride;
        r.lse = lse.data(), r.lse_token = c.group, r.lse_head = 1;
        r.group = c.group, r.count = c.rows();
        return r;
    }
    using head_type = imbrex::kv_head<imbrex::rows<typename P::key>, imbrex::rows<typename P::value>>;
    head_type head() const { return {k.rows(), v.rows()}; }
    double scale() const { return 1 / std::sqrt(static_cast<double>(c.head_dim)); }
    imbrex::problem problem() const { return {1, c.q_tokens, c.keys, c.group, 1, c.head_dim, c.head_dim_v}; }

    // Against plain loops in double. tolerance: of an output, in terms of the largest value; half_ulp: of the output's type.
    void expect_right(double tolerance, double half_ulp) const {
        for (index r = 0; r < c.rows(); ++r) {
            std::vector<double> o(static_cast<std::size_t>(c.head_dim_v));
            double l = 0, largest = 0;
            for (index j = 0; j < c.keys; ++j) {
                if (!sees(c, q_at(r), static_cast<position>(j))) continue;
                double dot = 0;
                for (index d = 0; d < c.head_dim; ++d) dot += imbrex::to_double(q.row(r)[d]) * static_cast<double>(imbrex::to_float(k.row(j)[d]));
                double const p = std::exp(scale() * dot);
                l += p;
                for (index d = 0; d < c.head_dim_v; ++d) {
                    auto const x = static_cast<double>(imbrex::to_float(v.row(j)[d]));
                    o[static_cast<std::size_t>(d)] += p * x;
                    largest = std::max(largest, std::abs(x));
                }
            }
            for (index d = 0; d < c.head_dim_v; ++d) {
                double const right = l == 0 ? 0 : o[static_cast<std::size_t>(d)] / l;
                ASSERT_NEAR(imbrex::to_double(out.row(r)[d]), right, tolerance * largest + half_ulp * std::abs(right)) << "row " << r << " [" << d << ']';
            }
            if (l == 0) {
                ASSERT_EQ(lse[static_cast<std::size_t>(r)], -INFINITY) << "row " << r;
            } else {
                ASSERT_NEAR(lse[static_cast<std::size_t>(r)], std::log(l), 1e-5 * std::max(1.0, std::abs(std::log(l)))) << "row " << r;
            }
        }
        for (index r = 0; r + 1 < c.rows(); ++r) {
            for (index d = c.head_dim_v; d < out.stride; ++d) ASSERT_TRUE(std::isnan(imbrex::to_double(out.row(r)[d]))) << "written between rows";
        }
    }
};

// Scratch of exactly the bytes that are counted for it, all NaN: Scratch::lay_out(arena, ...) counts and hands out.
struct counted_memory {
    guarded<std::byte> bytes;
    explicit counted_memory(std::size_t n) : bytes{(n + 63) / 64 * 64} {}
    template <class LayOut>
    static counted_memory of(LayOut const& lay_out) {
        imbrex::arena counted{nullptr};
        lay_out(counted);
        return counted_memory{counted.used()};
    }
};

template <class Unit, class Call, class Head>
void attend_and_finish(Unit& unit, Call const& t, Head const& head, rule_type const& rule) {
    static_assert(imbrex::attention_unit<Unit>);
    imbrex::no_observer observer;
    constexpr index step = imbrex::kv_step_of<Unit>;
    index const kv_cols = std::max(step, t.c.kv_cols - t.c.kv_cols % step);
    imbrex::attend(unit, t.rows(), head, {0, t.ctx.kv_len}, rule, t.ctx, kv_cols, observer);
    unit.finish(t.rows());
}

// A wide family: its unit over tiles that are converted one by one, or over a head packed before.
template <class Precision, class Family, bool Packed>
struct wide_subject {
    using P = Precision;
    static constexpr index max_rows = Family::max_rows;
    static constexpr bool on_tiles = Family::kind == imbrex::wide_kind::amx_tiles;
    static bool runs_here() { return Family::refusal().empty(); }

    static void run(unit_call<P> const& t, rule_type const& rule) {
        auto const lay_out = [&](imbrex::arena& memory) { return Family::scratch::lay_out(memory, t.problem(), {max_rows, t.c.kv_cols}); };
        counted_memory const memory = counted_memory::of(lay_out);
        imbrex::arena arena{memory.bytes.data()};
        auto const scratch = lay_out(arena);
        imbrex::score_scale<typename P::score> const scale{t.scale(), imbrex::scale_applies::to_differences};
        typename Family::template unit<rule_type> unit{scratch.unit, rule, t.ctx, t.c.head_dim, t.c.head_dim_v, scale};
        if constexpr (Packed) {
            imbrex::kv_range const all{0, t.ctx.kv_len};
            counted_memory const room{static_cast<std::size_t>(Family::packed::bytes(t.problem(), t.c.keys))};
            auto const head = Family::packed::of(t.head(), all, t.problem(), imbrex::kv_layout::contiguous, room.bytes.data());
            for (position j = 0; j < all.end; j += static_cast<position>(imbrex::copy_rows)) {
                head.pack(t.head(), {j, std::min<position>(all.end, j + static_cast<position>(imbrex::copy_rows))});
            }
            attend_and_finish(unit, t, head, rule);
        } else {
            using tiles = typename Family::template tiles<typename unit_call<P>::head_type>;
            attend_and_finish(unit, t, tiles{t.head(), scratch.tiles, t.c.head_dim, t.c.head_dim_v}, rule);
        }
    }
};

template <class Precision, int R>
struct narrow_subject {
    using P = Precision;
    static constexpr index max_rows = R;
    static constexpr bool on_tiles = false;
    static bool runs_here() { return true; }

    static void run(unit_call<P> const& t, rule_type const& rule) {
        using scratch = imbrex::narrow_scratch<typename P::score>;
        auto const lay_out = [&](imbrex::arena& memory) { return scratch::lay_out(memory, R, t.c.head_dim, t.c.head_dim_v, t.c.kv_cols); };
        counted_memory const memory = counted_memory::of(lay_out);
        imbrex::arena arena{memory.bytes.data()};
        imbrex::score_scale<typename P::score> const scale{t.scale(), imbrex::scale_applies::to_differences};
        imbrex::narrow_unit<P, rule_type, R> unit{lay_out(arena), rule, t.ctx, t.c.head_dim, t.c.head_dim_v, scale};
        attend_and_finish(unit, t, t.head(), rule);
    }
};

struct scalar_subject {
    using P = imbrex::precision<float>;
    static constexpr index max_rows = scalar_unit<P, rule_type>::max_rows;
    static constexpr bool on_tiles = false;
    static bool runs_here() { return true; }

    static void run(unit_call<P> const& t, rule_type const& rule) {
        scalar_unit<P, rule_type> unit{rule, t.ctx, t.c.head_dim, t.c.head_dim_v, t.scale()};
        attend_and_finish(unit, t, t.head(), rule);
    }
};

template <class Subject>
class UnitConformance : public testing::Test {
protected:
    using P = typename Subject::P;
    static constexpr bool is_16_bit = sizeof(typename P::output) == 2, is_f16 = std::is_same_v<typename P::output, imbrex::f16>;
    // Sums of f32, or f64; weights rounded to bf16 where all else is bf16. (The AMX unit's largest weight of a row is none that bf16
    // has, so that it is rounded too.)
    static constexpr double tolerance = sizeof(typename P::score) == 8 ? 1e-13
                                        : !is_16_bit || is_f16        ? 4e-6
                                        : Subject::on_tiles           ? 0x1p-8
                                                                      : 0x1p-9;
    static constexpr double half_ulp = is_f16 ? 0x1p-11 : is_16_bit ? 0x1p-9 : 0;

    std::mt19937 random{20261201};

    void SetUp() override {
        if (!Subject::runs_here()) GTEST_SKIP() << "not on this processor";
    }
    void expect_right(unit_case const& c) {
        for (guard const where : {guard::after, guard::before}) {
            SCOPED_TRACE(text_of(c));
            unit_call<P> const t{c, where, random};
            Subject::run(t, rule_of(c));
            t.expect_right(tolerance, half_ulp);
            if (testing::Test::HasFatalFailure()) return;
        }
    }
};

// In pairs where this build has dot products of them.
using wide_bf16_family = std::conditional_t<imbrex::pairs_unit<imbrex::precision<bf16>>, imbrex::bf16_pairs_family<imbrex::precision<bf16>>,
                                            imbrex::widening_family<imbrex::precision<bf16>>>;

template <class T>
using emulated_amx = imbrex::amx_family<imbrex::precision<T>, imbrex::emulated_tiles>;

using subjects = testing::Types<wide_subject<imbrex::precision<float>, imbrex::widening_family<imbrex::precision<float>>, false>,
                                wide_subject<imbrex::precision<double>, imbrex::widening_family<imbrex::precision<double>>, false>,
                                wide_subject<imbrex::precision<bf16>, wide_bf16_family, false>,
                                wide_subject<imbrex::precision<bf16>, wide_bf16_family, true>,
                                wide_subject<imbrex::precision<bf16>, emulated_amx<bf16>, false>,
                                wide_subject<imbrex::precision<bf16>, emulated_amx<bf16>, true>,
                                wide_subject<imbrex::precision<imbrex::f16>, emulated_amx<imbrex::f16>, false>,
                                wide_subject<imbrex::precision<imbrex::f16>, emulated_amx<imbrex::f16>, true>,
                                narrow_subject<imbrex::precision<float>, 1>, narrow_subject<imbrex::precision<float>, 4>,
                                narrow_subject<imbrex::precision<bf16>, 1>, narrow_subject<imbrex::precision<bf16>, 4>,
                                narrow_subject<imbrex::precision<bf16, imbrex::f8_e4m3, imbrex::f8_e4m3, bf16>, 4>,
                                narrow_subject<imbrex::precision<bf16, bf16, imbrex::f8_e5m2, bf16>, 2>,
                                narrow_subject<imbrex::precision<bf16, bf16, bf16, float>, 8>, scalar_subject>;

struct names {
    template <class S>
    static std::string GetName(int i) {
        return std::to_string(i) + "_rows_up_to_" + std::to_string(S::max_rows);
    }
};
TYPED_TEST_SUITE(UnitConformance, subjects, names);

TYPED_TEST(UnitConformance, AnyNumberOfRowsAndKeys) {
    index const most = TypeParam::max_rows;
    for (index const rows : {index{1}, index{2}, index{3}, most / 2 + 1, most - 1, most}) {
        if (rows < 1 || rows > most) continue;
        for (index const keys : {0, 1, 2, 15, 16, 17, 33, 64, 65, 131}) {
            for (auto const mask : {unit_case::full, unit_case::causal, unit_case::holes}) {
                this->expect_right({.q_tokens = rows, .keys = keys, .head_dim = 20, .head_dim_v = 9, .mask = mask});
                if (this->HasFatalFailure()) return;
            }
        }
    }
}

TYPED_TEST(UnitConformance, AnyHeadSize) {
    for (index const head_dim : {1, 2, 7, 16, 31, 32, 33, 64, 80, 128}) {
        for (index const head_dim_v : {head_dim, index{1}, index{17}, index{40}}) {
            this->expect_right({.q_tokens = std::min<index>(3, TypeParam::max_rows), .keys = 37, .head_dim = head_dim, .head_dim_v = head_dim_v});
            if (this->HasFatalFailure()) return;
        }
    }
}

// Scale 1 and more, with rows that see no key: their maximum is as low as a number can be.
TYPED_TEST(UnitConformance, RowsWithoutKeysUnderALargeScale) {
    for (index const head_dim : {1, 2}) {
        this->expect_right({.q_tokens = std::min<index>(9, TypeParam::max_rows), .keys = 2, .head_dim = head_dim, .head_dim_v = 3});
        if (this->HasFatalFailure()) return;
    }
}

TYPED_TEST(UnitConformance, RowsOfSeveralHeadsAndTokens) {
    for (index const group : {2, 3, 5}) {
        for (index const tokens : {1, 2, 7}) {
            if (group * tokens > TypeParam::max_rows) continue;
            this->expect_right({.group = group, .q_tokens = tokens, .keys = 50, .mask = unit_case::holes});
            if (this->HasFatalFailure()) return;
        }
    }
}

TYPED_TEST(UnitConformance, TilesOfAnyWidth) {
    for (index const kv_cols : {16, 32, 256}) {
        for (auto const mask : {unit_case::full, unit_case::causal, unit_case::holes}) {
            this->expect_right({.q_tokens = std::min<index>(2, TypeParam::max_rows), .keys = 300, .kv_cols = kv_cols, .mask = mask});
            if (this->HasFatalFailure()) return;
        }
    }
}

}    // namespace
}    // namespace imbrex_test
