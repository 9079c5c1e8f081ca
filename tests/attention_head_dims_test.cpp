// Head sizes in f32, on both units, keys' and values' equal and not.
#include <vector>

#include "attention_cases.hpp"

namespace imbrex_test {
namespace {

using f32 = imbrex::precision<float>;

class AttentionHeadDims : public Seeded, public testing::WithParamInterface<attention_case> {};

TEST_P(AttentionHeadDims, MatchesF64AndStaysWithinItsMemory) {
    expect_right<f32>(GetParam(), GetParam().head_dim <= 256 ? accuracy::strict : accuracy::rule);
}

std::vector<attention_case> head_dims() {
    struct {
        index keys, values;
    } const dims[] = {{1, 1},     {2, 2},     {3, 3},     {5, 5},         {15, 15},     {17, 17},   {37, 37},   {48, 48}, {63, 63}, {64, 64},  {65, 65},
                      {80, 80},   {112, 112}, {128, 128}, {192, 192},     {256, 256},   {576, 576}, {1024, 1024}, {1, 1024}, {1024, 1}, {192, 128},
                      {576, 512}, {37, 63},   {64, 200}};
    std::vector<attention_case> cases;
    for (auto const& d : dims) {
        for (rule const r : {rule::full, rule::bottom_right}) {
            attention_case const wide{.q_tokens = 35, .kv_tokens = 70, .q_heads = 4, .kv_heads = 2, .head_dim = d.keys, .head_dim_v = d.values, .sees = r};
            attention_case narrow = wide;
            narrow.q_tokens = 2;
            narrow.memory = order::bshd;
            cases.push_back(wide);
            cases.push_back(narrow);
        }
    }
    return cases;
}

INSTANTIATE_TEST_SUITE_P(OnBothUnits, AttentionHeadDims, testing::ValuesIn(head_dims()), name_of_case);

}    // namespace
}    // namespace imbrex_test
