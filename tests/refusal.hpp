// A right call that tests spoil, and what every refusal owes: its code, its numbers in the sentence, and not one byte written.
#pragma once

#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "imbrex/imbrex.hpp"

namespace imbrex_test {

using imbrex::dense_kv;
using imbrex::errc;
using imbrex::index;
using imbrex::options;
using imbrex::plan;
using imbrex::precision;
using imbrex::shape4;
using imbrex::status;
using imbrex::tensor_view;

// A right call, to be spoiled by a test: batch 2, 3 queries on 5 keys, 4 heads on 2, head_dim 8 and 6. All tensors are parts of
// one block, whose bytes tell whether anything was written.
class Refusal : public testing::Test {
protected:
    static constexpr shape4 q_shape{2, 3, 4, 8}, k_shape{2, 5, 2, 8}, v_shape{2, 5, 2, 6}, out_shape{2, 3, 4, 6};

    std::vector<float> block = std::vector<float>(4096, 0.25f);
    tensor_view<float const> q = imbrex::bshd<float const>(block.data(), q_shape);
    tensor_view<float const> k = imbrex::bshd<float const>(block.data() + 512, k_shape);
    tensor_view<float const> v = imbrex::bshd<float const>(block.data() + 1024, v_shape);
    tensor_view<float> out = imbrex::bshd(block.data() + 2048, out_shape);
    options o{.lse = imbrex::bhs(block.data() + 3072, q_shape), .workspace = imbrex::allocate{}};

    static plan make(imbrex::problem const& shape) {
        plan p;
        EXPECT_TRUE(imbrex::make_plan<precision<float>>(shape, p).ok());
        return p;
    }
    plan const fitting =
        make({.batch = 2, .q_tokens = 3, .kv_tokens = 5, .q_heads = 4, .kv_heads = 2, .head_dim = 8, .head_dim_v = 6});

    status call() { return imbrex::attention(q, dense_kv{k, v}, out, imbrex::causal{imbrex::align::bottom_right}, o); }
    status call(plan const& p) { return imbrex::attention(p, q, dense_kv{k, v}, out, imbrex::full{}, o); }

    using pieces = std::vector<std::string>;

    void expect_sentence(status const& s, errc code, pieces const& wanted) {
        EXPECT_EQ(s.code(), code) << s.message().c_str();
        imbrex::status_text const text = s.message();
        EXPECT_TRUE(text.view().starts_with("imbrex: ")) << text.view();
        for (std::string const& piece : wanted) {
            EXPECT_NE(text.view().find(piece), std::string_view::npos) << '"' << piece << "\" is not in: " << text.view();
        }
    }
    template <class Call>
    void expect_refused(Call f, errc code, pieces const& wanted) {
        std::vector<float> const before = block;
        status const s = f();
        expect_sentence(s, code, wanted);
        EXPECT_EQ(std::memcmp(block.data(), before.data(), block.size() * sizeof(float)), 0)
            << "written in spite of: " << s.message().c_str();
    }
    // With a plan of the call's own and with one of the caller's.
    void expect_refused(errc code, pieces const& wanted) {
        expect_refused([&] { return call(); }, code, wanted);
        expect_refused([&] { return call(fitting); }, code, wanted);
    }
    void expect_refused_by(plan const& p, errc code, pieces const& wanted) {
        expect_refused([&] { return call(p); }, code, wanted);
    }
};

}    // namespace imbrex_test
