// One element type for everything, the compiler's own 16-bit types included.
#include "attention_precisions.hpp"

namespace imbrex_test {
namespace {

using imbrex::bf16;
using imbrex::f16;
using imbrex::precision;

using uniform = testing::Types<precision<float>, precision<double>, precision<bf16>, precision<f16>>;
INSTANTIATE_TYPED_TEST_SUITE_P(Uniform, AttentionPrecisions, uniform, precision_names);

class AttentionNativeTypes : public Seeded {
protected:
    // Storage is the library's type for the compiler's type Native, which may be incomplete: then there is none.
    template <class Storage, class Native>
    void expect_same_bits() {
        if constexpr (requires { sizeof(Native); }) {
            attention_case const c{.q_tokens = 11, .kv_tokens = 70, .q_heads = 2, .head_dim = 40};
            call_tensors<precision<Storage>> const t{c};
            fill(t);
            ASSERT_OK(planned(t, c.sees));
            tensor<Storage> const out{c.out(), c.memory};
            auto const native = [](tensor_view<Storage> v) { return imbrex::strided(reinterpret_cast<Native*>(v.data), v.shape, v.strides); };
            ASSERT_OK(planned(native(t.q.view), imbrex::dense_kv{native(t.k.view), native(t.v.view)}, native(out.view), imbrex::full{}));
            EXPECT_TRUE(same_bits(t.out.memory, out.memory));
        } else {
            GTEST_SKIP() << "this compiler has no such type";
        }
    }
};

TEST_F(AttentionNativeTypes, Float16GivesTheBitsOfF16) { expect_same_bits<f16, imbrex::detail::native_f16>(); }

TEST_F(AttentionNativeTypes, StdBfloat16GivesTheBitsOfBf16) { expect_same_bits<bf16, imbrex::detail::native_bf16>(); }

}    // namespace
}    // namespace imbrex_test
