// New tokens in caches of every encoding and addressing: the right rows in the right slots, turned by the right positions, and
// nothing else touched. Expected rows are computed in double from the definition of rotary embedding.
#include "imbrex/kv/append.hpp"

#include <array>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "guard.hpp"

namespace imbrex_test {
namespace {

using namespace imbrex;
using imbrex::index;

constexpr index heads = 2, head_dim = 64, head_dim_v = 32;
constexpr std::array<position, 1> beginning{0};
constexpr append_options from_beginning{.first = beginning};
constexpr shape4 fresh_k{2, 3, heads, head_dim}, fresh_v{2, 3, heads, head_dim_v};

class Append : public testing::Test {
protected:
    Append() {
        std::mt19937 random{20261130};
        std::normal_distribution<float> normal;
        for (float& x : k_numbers) x = normal(random);
        for (float& x : v_numbers) x = normal(random);
        rope_frequencies(10000, {}, frequencies);
    }

    std::vector<float> k_numbers = std::vector<float>(static_cast<std::size_t>(fresh_k.elements()));
    std::vector<float> v_numbers = std::vector<float>(static_cast<std::size_t>(fresh_v.elements()));
    std::vector<float> frequencies = std::vector<float>(24);
    tensor_view<float const> k = bshd<float const>(k_numbers.data(), fresh_k);
    tensor_view<float const> v = bshd<float const>(v_numbers.data(), fresh_v);
    rope turn{.rotary_dim = 48, .frequencies = frequencies};

    // Number d of a new key, turned by its position.
    double key(index b, index token, index head, index d, double at) const {
        float const* const row = k.row(b, token, head);
        if (d >= 48) return static_cast<double>(row[d]);
        index const i = d % 24;
        double const t = at * static_cast<double>(frequencies[static_cast<std::size_t>(i)]);
        double const a = static_cast<double>(row[i]), c = static_cast<double>(row[i + 24]);
        return d < 24 ? a * std::cos(t) - c * std::sin(t) : c * std::cos(t) + a * std::sin(t);
    }
};

// How far a number may be from what was written, for numbers of magnitude up to `largest` in the row.
template <class E>
double tolerance(double x, double largest) {
    x = std::fabs(x);
    if constexpr (std::is_same_v<E, float>) return 1e-6 * largest;
    if constexpr (std::is_same_v<E, f16>) return x / 2048 + 1e-6;
    if constexpr (std::is_same_v<E, bf16>) return x / 256 + 1e-6;
    if constexpr (std::is_same_v<E, f8_e4m3>) return x / 16 + 1e-3;
    if constexpr (std::is_same_v<E, f8_e5m2>) return x / 8 + 1e-5;
    if constexpr (std::is_same_v<E, std::int8_t> || std::is_same_v<E, q8_0_block>) return largest / 252;
    if constexpr (std::is_same_v<E, int4_pair>) return largest / 13.9;
    return largest / 7.9;    // q4_0: the side without a ninth code
}

// A dense cache of 2 sequences and 6 slots, poisoned.
template <class E>
struct dense_cache {
    index dim;
    index group = 32;
    shape4 shape{2, 6, heads, row_units<E>(dim)};
    guarded<E> memory{static_cast<std::size_t>(shape.elements())};
    guarded<float> scales{static_cast<std::size_t>(12 * heads * dim / 32)};

    tensor_view<E> rows() const { return bshd(memory.data(), shape); }
    tensor_view<float> scale_view() const { return bshd(scales.data(), {2, 6, heads, dim / group}); }
    auto destination() const {
        if constexpr (side_scaled<E>)
            return group_scaled_rows<E>{rows(), scale_view(), group};
        else
            return encoded_rows{rows()};
    }
    double operator()(index b, index slot, index head, index d) const {
        E const* const row = rows().row(b, slot, head);
        if constexpr (side_scaled<E>)
            return static_cast<double>(value_at(row, side_scales{scale_view().row(b, slot, head), group}, d));
        else
            return static_cast<double>(value_at(row, d));
    }
    bool untouched(index b, index slot) const {
        auto const* const bytes = reinterpret_cast<unsigned char const*>(rows().row(b, slot, 0));
        for (std::size_t i = 0; i < sizeof(E) * static_cast<std::size_t>(heads * shape.head_dim); ++i) {
            if (bytes[i] != 0xff) return false;
        }
        return true;
    }
};

template <class E>
class AppendEncoded : public Append {};
struct names {
    template <class E>
    static std::string GetName(int) {
        return std::string{encoding_name<E>()};
    }
};
using encodings = testing::Types<float, f16, bf16, f8_e4m3, f8_e5m2, std::int8_t, int4_pair, q8_0_block, q4_0_block>;
TYPED_TEST_SUITE(AppendEncoded, encodings, names);

TYPED_TEST(AppendEncoded, KeysAreTurnedAndBothLieInTheirSlotsAndNothingElseIsTouched) {
    using E = TypeParam;
    dense_cache<E> const keys{head_dim}, values{head_dim_v};
    std::array<position, 2> const first{3, 1};
    ASSERT_TRUE(append(this->k, this->v, keys.destination(), values.destination(), {.first = first, .turn = this->turn}, dense_slots{}).ok());
    for (index b = 0; b < 2; ++b) {
        index const begin = first[static_cast<std::size_t>(b)];
        for (index slot = 0; slot < 6; ++slot) {
            if (slot < begin || slot >= begin + 3) {
                EXPECT_TRUE(keys.untouched(b, slot) && values.untouched(b, slot)) << b << ", " << slot;
                continue;
            }
            for (index head = 0; head < heads; ++head) {
                for (index d = 0; d < head_dim; ++d) {
                    double const x = this->key(b, slot - begin, head, d, static_cast<double>(slot));
                    ASSERT_NEAR(keys(b, slot, head, d), x, tolerance<E>(x, 4.5)) << b << ", " << slot << ", " << d;
                }
                for (index d = 0; d < head_dim_v; ++d) {
                    auto const x = static_cast<double>(this->v.row(b, slot - begin, head)[d]);
                    ASSERT_NEAR(values(b, slot, head, d), x, tolerance<E>(x, 4.5)) << b << ", " << slot << ", " << d;
                }
            }
        }
    }
}

TEST_F(Append, TakesSixteenBitTokensOfAnyStridesAndEncodesKeysUnlikeValues) {
    std::vector<bf16> packed(2 * 3 * 512);    // q k v of a token side by side; k at 100, v at 300
    for (std::size_t i = 0; i < packed.size(); ++i) packed[i] = bf16(static_cast<float>(i % 251) - 125.f);
    auto const new_k = strided(packed.data() + 100, fresh_k, {1536, 512, head_dim, 1});
    auto const new_v = strided(packed.data() + 300, fresh_v, {1536, 512, head_dim_v, 1});
    dense_cache<float> const keys{head_dim};
    dense_cache<q8_0_block> const values{head_dim_v};
    ASSERT_TRUE(append(new_k, new_v, keys.destination(), values.destination(), from_beginning, dense_slots{}).ok());
    for (index b = 0; b < 2; ++b) {
        for (index slot = 0; slot < 3; ++slot) {
            for (index d = 0; d < head_dim; ++d) ASSERT_EQ(keys(b, slot, 1, d), static_cast<double>(new_k.row(b, slot, 1)[d]));
            for (index d = 0; d < head_dim_v; ++d)
                ASSERT_NEAR(values(b, slot, 1, d), static_cast<double>(new_v.row(b, slot, 1)[d]), 125. / 252);
        }
    }
}

TEST_F(Append, PositionsMayBeGivenForAllSequencesOrForEach) {
    for (bool const each : {false, true}) {
        std::vector<position> positions{100, 7, 7};
        if (each) positions.insert(positions.end(), {0, 5, 131071});
        dense_cache<float> const keys{head_dim}, values{head_dim_v};
        std::array<position, 1> const first{2};
        append_options const o{.first = first, .turn = turn, .positions = positions};
        ASSERT_TRUE(append(k, v, keys.destination(), values.destination(), o, dense_slots{}).ok());
        for (index b = 0; b < 2; ++b) {
            for (index i = 0; i < 3; ++i) {
                double const at = positions[static_cast<std::size_t>(each ? b * 3 + i : i)];
                for (index d = 0; d < head_dim; ++d) ASSERT_NEAR(keys(b, 2 + i, 0, d), key(b, i, 0, d, at), 5e-6) << b << i << d;
            }
        }
    }
}

TEST_F(Append, ChannelScalesOfTheCallersAreUsed) {
    std::vector<float> scales(heads * head_dim);
    for (std::size_t i = 0; i < scales.size(); ++i) scales[i] = 0.03f + 0.001f * static_cast<float>(i);
    dense_cache<std::int8_t> const keys{head_dim};
    dense_cache<float> const values{head_dim_v};
    channel_scaled_rows<std::int8_t> const to{keys.rows(), bshd<float const>(scales.data(), {1, 1, heads, head_dim})};
    ASSERT_TRUE(append(k, v, to, values.destination(), from_beginning, dense_slots{}).ok());
    for (index head = 0; head < heads; ++head) {
        for (index d = 0; d < head_dim; ++d) {
            float const scale = scales[static_cast<std::size_t>(head * head_dim + d)];
            auto const x = static_cast<double>(value_at(keys.rows().row(1, 2, head), side_scales{&scale, 1000}, d));
            ASSERT_NEAR(x, static_cast<double>(k.row(1, 2, head)[d]), 0.502 * static_cast<double>(scale));
        }
    }
}

// Values of one number a row, which is 10 sequence + token + 1, and keys of zeros: where does each end up?
struct numbered {
    std::vector<float> k = std::vector<float>(2 * 4), v = {1, 2, 3, 4, 11, 12, 13, 14};
    tensor_view<float const> keys = bshd<float const>(k.data(), {2, 4, 1, 1});
    tensor_view<float const> values = bshd<float const>(v.data(), {2, 4, 1, 1});
};

TEST(AppendSlots, PagesAreFoundInTheBlockTable) {
    numbered const fresh;
    std::vector<float> k(5 * 2), v(5 * 2);
    std::array<position, 8> const ids{4, 0, 3, -1, -1, 2, 1, -1};    // page size 2; sequence 0 from slot 1 on, 1 from slot 2
    std::array<position, 2> const first{1, 2};
    shape4 const pages{5, 2, 1, 1};
    ASSERT_TRUE(append(fresh.keys, fresh.values, encoded_rows<float>{bshd(k.data(), pages)},
                       encoded_rows<float>{bshd(v.data(), pages)}, {.first = first}, paged_slots{{ids, 4}})
                    .ok());
    EXPECT_EQ(v, (std::vector<float>{2, 3, 13, 14, 11, 12, 4, 0, 0, 1}));
}

TEST(AppendSlots, SequencesMayAppendToOnePageInSlotsOfTheirOwn) {
    numbered const fresh;
    std::vector<float> k(2 * 8), v(2 * 8);
    shape4 const pages{2, 8, 1, 1};
    std::array<position, 2> const ids{1, 1}, beyond{3, 7}, apart{4, 0};
    auto const at = [&](auto const& begins) {
        return append(fresh.keys, fresh.values, encoded_rows<float>{bshd(k.data(), pages)}, encoded_rows<float>{bshd(v.data(), pages)},
                      {.first = begins}, paged_slots{{ids, 1}});
    };
    EXPECT_EQ(at(beyond).code(), errc::table_width);
    ASSERT_TRUE(at(apart).ok());
    EXPECT_EQ(v, (std::vector<float>{0, 0, 0, 0, 0, 0, 0, 0, 11, 12, 13, 14, 1, 2, 3, 4}));
}

TEST(AppendSlots, ValuesInPagesOfAnotherSizeAreLookedAtToo) {
    numbered const fresh;
    std::vector<float> k(3 * 8), v(3 * 2);
    std::array<position, 8> const ids{0, 1, 0, 0, 0, 0, 1, 2};
    std::array<position, 2> const first{0, 4};
    status const s = append(fresh.keys, fresh.values, encoded_rows<float>{bshd(k.data(), {3, 8, 1, 1})},
                            encoded_rows<float>{bshd(v.data(), {3, 2, 1, 1})}, {.first = first}, paged_slots{{ids, 4}});
    EXPECT_EQ(s.code(), errc::append_shared_slot);
    EXPECT_EQ(s.value(2), 1);
}

TEST(AppendSlots, OneSlotAmongManyPagesThatTwoTokensGoToIsFound) {
    constexpr index sequences = 3000;
    std::vector<float> memory(sequences), cache(sequences);
    std::vector<position> ids(sequences);
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<position>(i * 7 % sequences);
    std::vector<float> more(sequences);
    auto const fresh = bshd<float const>(memory.data(), {sequences, 1, 1, 1});
    auto const run = [&] {
        return append(fresh, fresh, encoded_rows<float>{bshd(cache.data(), {sequences, 1, 1, 1})},
                      encoded_rows<float>{bshd(more.data(), {sequences, 1, 1, 1})}, from_beginning, paged_slots{{ids, 1}});
    };
    EXPECT_TRUE(run().ok());
    ids[2998] = ids[17];
    status const s = run();
    EXPECT_EQ(s.code(), errc::append_shared_slot);
    EXPECT_EQ(s.value(0), 2998);
    EXPECT_EQ(s.value(1), 17);
    EXPECT_EQ(s.value(2), 17 * 7);
    std::fill(ids.begin(), ids.end(), position{5});
    ids.resize(8);
    numbered const two;
    status const twice = append(two.keys, two.values, encoded_rows<float>{bshd(cache.data(), {10, 1, 1, 1})},
                                encoded_rows<float>{bshd(more.data(), {10, 1, 1, 1})}, from_beginning, paged_slots{{ids, 4}});
    EXPECT_EQ(twice.code(), errc::append_shared_slot);    // a page that stands twice in one sequence's list
    EXPECT_EQ(twice.value(0), 0);
    EXPECT_EQ(twice.value(1), 0);
}

TEST(AppendSlots, ARingGoesRound) {
    numbered const fresh;
    std::vector<float> k(6), v(6);
    std::array<position, 2> const first{0, 7};
    shape4 const rings{2, 3, 1, 1};
    ASSERT_TRUE(append(fresh.keys, fresh.values, encoded_rows<float>{bshd(k.data(), rings)},
                       encoded_rows<float>{bshd(v.data(), rings)}, {.first = first}, ring_slots{})
                    .ok());
    EXPECT_EQ(v, (std::vector<float>{4, 2, 3, 13, 14, 12}));
}

class AppendErrors : public Append {
protected:
    dense_cache<float> keys{head_dim}, values{head_dim_v};

    errc code(append_options o) const {
        if (o.first.empty()) o.first = beginning;
        return append(k, v, keys.destination(), values.destination(), o, dense_slots{}).code();
    }
    template <class Slots>
    errc code_in(Slots const& slots) const {
        return append(k, v, keys.destination(), values.destination(), from_beginning, slots).code();
    }
    void TearDown() override { EXPECT_TRUE(keys.memory.poisoned() && values.memory.poisoned()); }
};

TEST_F(AppendErrors, SlotsAndPositionsThatAreNotThereAreRefused) {
    std::array<position, 2> const beyond{3, 4}, negative{0, -1};
    std::array<position, 3> const three{};
    std::array<position, 4> const four{};
    EXPECT_EQ(code({.first = beyond}), errc::append_beyond);
    EXPECT_EQ(code({.first = negative}), errc::append_beyond);
    EXPECT_EQ(code({.first = three}), errc::append_first);
    EXPECT_EQ(code({.positions = four}), errc::append_positions);
    EXPECT_EQ(append(k, v, keys.destination(), values.destination(), {}, dense_slots{}).code(), errc::append_first);
    EXPECT_EQ(code({.turn = {.rotary_dim = 66}}), errc::rope_dim);
    EXPECT_EQ(code({.turn = {.frequencies = frequencies}}), errc::rope_dim);
    EXPECT_EQ(code({.turn = {.cosines = frequencies, .sines = frequencies}}), errc::rope_dim);
    std::array<float, 64> const table{};
    EXPECT_EQ(code({.turn = {.rotary_dim = 64, .cosines = table, .sines = table}}), errc::rope_position);
}

TEST_F(AppendErrors, BlockTablesThatDoNotHoldTheTokensAreRefused) {
    std::array<position, 2> const ids{0, 1}, bad{0, 2}, falling{5, 4};
    std::array<position, 3> const starts{0, 1, 1};
    EXPECT_EQ(code_in(paged_slots{{ids, 0}}), errc::table_width);
    EXPECT_EQ(code_in(paged_slots{{std::span{ids}.first(1), 1}}), errc::table_ids);
    EXPECT_EQ(code_in(paged_slots{{bad, 1}}), errc::page_id);
    EXPECT_EQ(code_in(paged_slots{{ids, 0, starts}}), errc::table_width);
    EXPECT_EQ(code_in(paged_slots{{ids, 0, falling}}), errc::table_order);
    EXPECT_EQ(code_in(paged_slots{{ids, 0, std::span{starts}.first(1)}}), errc::table_lists);
}

TEST_F(AppendErrors, CachesThatShareMemoryWithTheNewTokensAreRefused) {
    std::vector<float> const k_before = k_numbers, v_before = v_numbers;
    encoded_rows<float> const in_k{bshd(k_numbers.data(), fresh_k)}, in_v{bshd(v_numbers.data(), fresh_v)};
    std::vector<std::int8_t> codes(static_cast<std::size_t>(fresh_k.elements()));
    group_scaled_rows<std::int8_t> const scales_in_v{bshd(codes.data(), fresh_k), bshd(v_numbers.data(), {2, 3, heads, 1}), head_dim};
    auto const code_of = [&](auto const& new_k, auto const& to_k, auto const& to_v) {
        return append(new_k, v, to_k, to_v, from_beginning, dense_slots{}).code();
    };
    EXPECT_EQ(code_of(k, in_k, values.destination()), errc::append_overlap);
    EXPECT_EQ(code_of(k, keys.destination(), in_v), errc::append_overlap);
    EXPECT_EQ(code_of(k, scales_in_v, values.destination()), errc::append_overlap);
    EXPECT_EQ(code_of(v, in_v, in_v), errc::append_overlap);
    EXPECT_EQ(k_numbers, k_before);
    EXPECT_EQ(v_numbers, v_before);
    EXPECT_EQ(codes, std::vector<std::int8_t>(codes.size()));
}

TEST_F(AppendErrors, KeysAndValuesMayInterleaveButNotLieOnOneAnother) {
    std::vector<float> pool(2 * 6 * heads * 2 * 96, 7.f);
    shape4 const of_k{2, 6, heads, 32}, of_v{2, 6, heads, 32};
    auto const narrow_k = bshd<float const>(v_numbers.data(), {2, 3, heads, 32});
    auto const code_of = [&](index k_at, strides4 k_strides, index v_at, strides4 v_strides) {
        return append(narrow_k, v, encoded_rows<float>{strided(pool.data() + k_at, of_k, k_strides)},
                      encoded_rows<float>{strided(pool.data() + v_at, of_v, v_strides)}, from_beginning, dense_slots{})
            .code();
    };
    strides4 const side_by_side{768, 128, 64, 1}, halves_of_entry{768, 64, 32, 1}, heads_first{768, 64, 384, 1};
    EXPECT_EQ(code_of(0, side_by_side, 32, side_by_side), errc::ok);          // k v of a head, then of the next
    EXPECT_EQ(code_of(0, halves_of_entry, 384, halves_of_entry), errc::ok);   // an entry's k, then its v
    EXPECT_EQ(code_of(0, heads_first, 32, heads_first), errc::ok);            // a head's tokens, k v of each
    EXPECT_EQ(code_of(384, halves_of_entry, 0, {768, 32, 192, 1}), errc::ok); // of unlike strides
    std::vector<float> const before = pool;
    EXPECT_EQ(code_of(0, side_by_side, 0, side_by_side), errc::append_caches_overlap);    // MLA: values are a part of the keys
    EXPECT_EQ(code_of(0, side_by_side, 31, side_by_side), errc::append_caches_overlap);
    EXPECT_EQ(code_of(0, side_by_side, 33, side_by_side), errc::append_caches_overlap);
    EXPECT_EQ(code_of(0, halves_of_entry, 383, halves_of_entry), errc::append_caches_overlap);
    EXPECT_EQ(code_of(0, halves_of_entry, 0, heads_first), errc::append_caches_overlap);
    EXPECT_EQ(pool, before);
    std::vector<std::int8_t> codes(static_cast<std::size_t>(2 * of_k.elements()));
    std::vector<float> scales(static_cast<std::size_t>(of_k.elements()));
    auto const one_scale = bshd(scales.data(), {2, 6, heads, 1});
    EXPECT_EQ(append(narrow_k, v, group_scaled_rows{bshd(codes.data(), of_k), one_scale, 32},
                     group_scaled_rows{bshd(codes.data() + of_k.elements(), of_v), one_scale, 32}, from_beginning, dense_slots{})
                  .code(),
              errc::append_caches_overlap);
}

TEST_F(AppendErrors, TokensOfTwoSequencesForOneSlotOfAPageAreRefused) {
    std::array<position, 2> const one_page{1, 1}, two{0, 1};    // of 6 slots; 3 tokens a sequence
    auto const code_at = [&](append_options const& o, block_table const& table) {
        return append(k, v, keys.destination(), values.destination(), o, paged_slots{table}).code();
    };
    std::array<position, 2> const close{1, 3}, from_last{4, 0};
    std::array<position, 4> const pages{0, 1, 1, 0};
    EXPECT_EQ(code_at(from_beginning, {one_page, 1}), errc::append_shared_slot);
    EXPECT_EQ(code_at({.first = close}, {one_page, 1}), errc::append_shared_slot);
    EXPECT_EQ(code_at({.first = from_last}, {pages, 2}), errc::append_shared_slot);
    EXPECT_EQ(code_at({.first = close}, {two, 0}), errc::table_width);
}

TEST_F(AppendErrors, ShapesThatDoNotFitAreRefused) {
    auto const code_of = [&](tensor_view<float const> const& new_k, tensor_view<float const> const& new_v) {
        return append(new_k, new_v, keys.destination(), values.destination(), from_beginning, dense_slots{}).code();
    };
    auto const with = [](tensor_view<float const> t, shape4 shape) { return t.shape = shape, t; };
    EXPECT_EQ(code_of(with(k, {2, 3, 1, head_dim}), v), errc::append_shape);
    EXPECT_EQ(code_of(with(k, {2, 3, heads, 63}), v), errc::append_shape);
    EXPECT_EQ(code_of(k, with(v, {1, 3, heads, head_dim_v})), errc::append_shape);
    EXPECT_EQ(code_of(k, with(v, {2, 2, heads, head_dim_v})), errc::append_shape);
    EXPECT_EQ(code_of(with(k, {3, 3, heads, head_dim}), with(v, {3, 3, heads, head_dim_v})), errc::append_shape);
    tensor_view<float const> apart = k, nowhere = v;
    apart.strides.dim = 2, nowhere.data = nullptr;
    EXPECT_EQ(code_of(apart, v), errc::dim_stride);
    EXPECT_EQ(code_of(k, nowhere), errc::null_data);
    encoded_rows<float> one_entry = keys.destination(), far = one_entry;
    one_entry.rows.strides.batch = 0, far.rows.strides.batch = index{1} << 60;
    auto const code_in = [&](auto const& to) { return append(k, v, to, values.destination(), from_beginning, dense_slots{}).code(); };
    EXPECT_EQ(code_in(one_entry), errc::output_self_overlap);    // both sequences would write it
    EXPECT_EQ(code_in(far), errc::too_far);
}

TEST_F(AppendErrors, GroupsThatDoNotDivideARowAndScalesOfAnotherShapeAreRefused) {
    dense_cache<std::int8_t> const eight{head_dim};
    dense_cache<int4_pair> const four{head_dim};
    auto const code_of = [&](auto const& to) { return append(k, v, to, values.destination(), from_beginning, dense_slots{}).code(); };
    for (index group : {0, -32, 24, 128}) {
        EXPECT_EQ(code_of(group_scaled_rows{eight.rows(), eight.scale_view(), group}), errc::group_not_whole);
    }
    EXPECT_EQ(code_of(group_scaled_rows{four.rows(), four.scale_view(), 1}), errc::group_not_whole);
    EXPECT_EQ(code_of(group_scaled_rows{eight.rows(), eight.scale_view(), 16}), errc::scales_shape);
    EXPECT_EQ(code_of(channel_scaled_rows{eight.rows(), eight.scale_view()}), errc::scales_shape);
    auto nowhere = eight.scale_view();
    nowhere.data = nullptr;
    EXPECT_EQ(code_of(group_scaled_rows{eight.rows(), nowhere, eight.group}), errc::null_data);
    auto channels = nowhere;
    channels.shape = {1, 1, heads, head_dim};
    EXPECT_EQ(code_of(channel_scaled_rows{eight.rows(), channels}), errc::null_data);
    EXPECT_TRUE(eight.memory.poisoned() && four.memory.poisoned());
}

}    // namespace
}    // namespace imbrex_test
