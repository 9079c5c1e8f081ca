// What is peculiar to bf16 multiplied in pairs: odd numbers of keys and columns, the partner of a key that nobody sees, denormals,
// sums of rounded weights and of those before. What any unit must do is in units_conformance_test.cpp and the typed suites.
#include "attention_cases.hpp"

namespace imbrex_test {
namespace {

using imbrex::bf16;
using pairs_precision = imbrex::precision<bf16>;

class WideBf16 : public Seeded {
protected:
    void SetUp() override {
        if (!imbrex::pairs_unit<pairs_precision>) GTEST_SKIP() << "this build has no dot products of bf16";
    }
};

TEST_F(WideBf16, IsChosenForBf16AllThroughAndNotWhereProductsAreWidened) {
    imbrex::problem const shape{.q_tokens = 64, .kv_tokens = 64, .head_dim = 32};
    imbrex::plan p;
    ASSERT_OK(imbrex::make_plan<pairs_precision>(shape, p));
    if (p.wide == imbrex::wide_kind::amx_tiles) GTEST_SKIP() << "here AMX comes first";
    EXPECT_EQ(p.wide, imbrex::wide_kind::bf16_pairs);
    EXPECT_NE(imbrex::path_of(p).view().find("in pairs"), std::string_view::npos) << imbrex::path_of(p).c_str();
    ASSERT_OK((imbrex::make_plan<imbrex::precision<bf16, bf16, bf16, bf16, imbrex::products::widened>>(shape, p)));
    EXPECT_EQ(p.wide, imbrex::wide_kind::widened);
    ASSERT_OK((imbrex::make_plan<imbrex::precision<bf16, bf16, bf16, float>>(shape, p)));
    EXPECT_EQ(p.wide, imbrex::wide_kind::widened);
}

// Keys [0, seen) of more, whose others are NaN: with an odd number, one of a pair.
TEST_F(WideBf16, ThePartnerOfTheLastKeyThatIsSeenIsNotUsed) {
    for (index const seen : {1, 2, 15, 16, 33, 255, 257, 300}) {
        for (index const q_tokens : {17, 280}) {    // tile by tile, and packed once
            attention_case const c{.q_tokens = q_tokens, .kv_tokens = seen + 40, .head_dim = 21, .head_dim_v = 37};
            SCOPED_TRACE(testing::Message() << c << ", " << seen << " keys seen");
            call_tensors<pairs_precision> const t{c};
            fill(t);
            for (index j = seen; j < c.kv_tokens; ++j) {
                std::fill_n(t.k.view.row(0, j, 0), 21, bf16(std::nanf("")));
                std::fill_n(t.v.view.row(0, j, 0), 37, bf16(std::nanf("")));
            }
            std::int32_t const length[] = {static_cast<std::int32_t>(seen)};
            imbrex::options o;
            o.lse = imbrex::bhs(t.lse.data(), t.q.view.shape);
            ASSERT_OK(planned(t.q.view, t.kv(), t.out.view, imbrex::key_lengths{length}, o));
            expect_accurate(t, [&](index, index, index, index key) { return key < seen; });
        }
    }
}

TEST_F(WideBf16, DenormalNumbersCountAsZero) {
    attention_case const c{.q_tokens = 32, .kv_tokens = 8, .head_dim = 16};    // no rows left to the narrow unit
    call_tensors<pairs_precision> const t{c};
    fill(t);
    std::ranges::fill(t.v.memory, bf16::from_bits(0x0042));
    ASSERT_OK(planned(t, c.sees));
    for (bf16 const x : t.out.memory) EXPECT_EQ(imbrex::to_float(x), 0.0f);
}

// One key: its weight is exactly 1 in both sums, and its log-sum-exp its score.
TEST_F(WideBf16, OneKeyGivesItsValueAndItsScore) {
    attention_case const c{.q_tokens = 30, .kv_tokens = 1, .head_dim = 64};
    call_tensors<pairs_precision> const t{c};
    fill(t, 4);
    ASSERT_OK(planned(t, c.sees, {.scale = 1.0}));
    for (index i = 0; i < c.q_tokens; ++i) {
        double score = 0;
        for (index d = 0; d < 64; ++d) {
            score += imbrex::to_double(t.q.view.row(0, i, 0)[d]) * imbrex::to_double(t.k.view.row(0, 0, 0)[d]);
            EXPECT_EQ(imbrex::to_float(t.out.view.row(0, i, 0)[d]), imbrex::to_float(t.v.view.row(0, 0, 0)[d]));
        }
        EXPECT_NEAR(t.lse.data()[i], score, 2e-6 * 64 * 16);
    }
}

#if defined(IMBREX_HAS_BF16_PAIRS)

TEST_F(WideBf16, Exp2OfWeightsIsWithinItsBoundAndExactlyOneAtZero) {
    using V = imbrex::lanes<float>;
    alignas(64) float in[16], out[16];
    for (float x = -126; x <= 0; x += 0.001f) {
        for (int i = 0; i < 16; ++i) in[i] = x + 0.00006f * static_cast<float>(i);
        V one[1] = {V::load_aligned(in)};
        imbrex::bf16_pairs::exp2<1>(one);
        one[0].store_aligned(out);
        for (int i = 0; i < 16; ++i) ASSERT_LE(std::abs(out[i] / std::exp2(static_cast<double>(in[i])) - 1), 3.0e-6) << in[i];
    }
    V special[1] = {V(0.0f)};
    imbrex::bf16_pairs::exp2<1>(special);
    EXPECT_EQ(special[0].get(0), 1.0f);
    special[0] = V(-std::numeric_limits<float>::infinity());
    imbrex::bf16_pairs::exp2<1>(special);
    EXPECT_EQ(special[0].get(0), 0.0f);
}

#endif

}    // namespace
}    // namespace imbrex_test
