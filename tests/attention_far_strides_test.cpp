// Strides of 2^31 elements and more: offsets are 64-bit everywhere. The memory between the rows is reserved and never touched.
#include <sys/mman.h>

#include <optional>

#include "attention_cases.hpp"

namespace imbrex_test {
namespace {

using f32 = imbrex::precision<float>;

constexpr index far_apart = (index{1} << 31) + 64;

enum class axis { batch, token, head };

// A tensor whose indices along one axis lie far apart; the other axes are contiguous.
class far_tensor {
public:
    static std::optional<far_tensor> make(shape4 shape, axis far) {
        imbrex::strides4 s = imbrex::bshd(static_cast<float*>(nullptr), shape).strides;
        (far == axis::batch ? s.batch : far == axis::token ? s.token : s.head) = far_apart;
        index const reach = (shape.batch - 1) * s.batch + (shape.tokens - 1) * s.token + (shape.heads - 1) * s.head + shape.head_dim;
        std::size_t const bytes = static_cast<std::size_t>(reach) * sizeof(float);
        void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) return {};
        return far_tensor{imbrex::strided(static_cast<float*>(memory), shape, s), bytes};
    }
    far_tensor(far_tensor&& other) noexcept : view{other.view}, bytes_{std::exchange(other.bytes_, 0)} {}
    far_tensor& operator=(far_tensor&&) = delete;
    ~far_tensor() {
        if (bytes_ != 0) munmap(view.data, bytes_);
    }

    tensor_view<float> view;

private:
    far_tensor(tensor_view<float> v, std::size_t bytes) : view{v}, bytes_{bytes} {}
    std::size_t bytes_;
};

class AttentionFarStrides : public Seeded {
protected:
    // Each of the tensors far apart in turn, the others contiguous.
    void expect_right_with(axis far, attention_case const& c) {
        SCOPED_TRACE(testing::Message() << c);
        call_tensors<f32> const t{c};
        fill(t);
        ASSERT_OK(planned(t, c.sees));
        expect_accurate(t, visibility_of(c), accuracy::strict);
        tensor_view<float> const views[] = {t.q.view, t.k.view, t.v.view};
        for (int which = 0; which < 4; ++which) {
            SCOPED_TRACE(which);
            auto const moved = far_tensor::make(which == 3 ? c.out() : views[which].shape, far);
            if (!moved) GTEST_SKIP() << "this system does not reserve so much address space";
            tensor<float> const near{c.out(), c.memory};
            tensor_view<float> q[3] = {views[0], views[1], views[2]};
            if (which < 3) {
                for_each_row(views[which], [&](index b, index i, index h, float const* row) { std::copy_n(row, views[which].shape.head_dim, moved->view.row(b, i, h)); });
                q[which] = moved->view;
            }
            tensor_view<float> const out = which == 3 ? moved->view : near.view;
            with_rule(c.sees, [&](auto const& r) { ASSERT_OK(planned(q[0], imbrex::dense_kv{q[1], q[2]}, out, r)); });
            for_each_row(t.out.view, [&](index b, index i, index h, float const* row) {
                for (index d = 0; d < c.head_dim; ++d) ASSERT_EQ(out.row(b, i, h)[d], row[d]) << "batch " << b << ", query " << i << ", head " << h;
            });
        }
    }
    void expect_right_with(axis far) {
        for (index const q_heads : {2, 12}) {    // on the narrow unit and on the wide one
            expect_right_with(far, {.batch = 2, .q_tokens = 2, .kv_tokens = 3, .q_heads = q_heads, .kv_heads = 2, .head_dim = 20, .sees = rule::bottom_right});
        }
    }
};

TEST_F(AttentionFarStrides, BatchesFartherApartThan32BitsAreRight) { expect_right_with(axis::batch); }

TEST_F(AttentionFarStrides, TokensFartherApartThan32BitsAreRight) { expect_right_with(axis::token); }

TEST_F(AttentionFarStrides, HeadsFartherApartThan32BitsAreRight) { expect_right_with(axis::head); }

TEST_F(AttentionFarStrides, LogSumExpFartherApartThan32BitsIsRight) {
    attention_case const c{.batch = 2, .q_tokens = 3, .kv_tokens = 3, .q_heads = 4, .kv_heads = 1, .head_dim = 8};
    call_tensors<f32> const t{c};
    fill(t);
    ASSERT_OK(planned(t, c.sees));
    for (axis const far : {axis::batch, axis::token, axis::head}) {
        auto const moved = far_tensor::make({c.batch, c.q_tokens, c.q_heads, 1}, far);
        if (!moved) GTEST_SKIP() << "this system does not reserve so much address space";
        imbrex::row_stats_view<float> const lse{moved->view.data, moved->view.strides.batch, moved->view.strides.head, moved->view.strides.token};
        ASSERT_OK(planned(t.q.view, t.kv(), t.out.view, imbrex::full{}, {.lse = lse}));
        for_each_row(t.q.view, [&](index b, index i, index h, float const*) { EXPECT_EQ(*lse.at(b, h, i), *imbrex::bhs(t.lse.data(), c.q()).at(b, h, i)); });
    }
}

}    // namespace
}    // namespace imbrex_test
