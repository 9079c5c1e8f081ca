// Queries of one type on kv of another, outputs of a third, and keys unlike values.
#include "attention_precisions.hpp"

namespace imbrex_test {
namespace {

using imbrex::bf16;
using imbrex::f16;
using imbrex::precision;

using mixed = testing::Types<precision<float, bf16, bf16, float>, precision<float, bf16, bf16, bf16>, precision<float, bf16, bf16, f16>,
                             precision<bf16, bf16, f16, bf16>, precision<float, f16, float, float>, precision<f16, float, bf16, f16>>;
INSTANTIATE_TYPED_TEST_SUITE_P(Mixed, AttentionPrecisions, mixed, precision_names);

}    // namespace
}    // namespace imbrex_test
