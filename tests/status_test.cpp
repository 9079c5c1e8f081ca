// status.hpp: sentences with the offending numbers, in a buffer that never overruns, without heap.
#include "imbrex/status.hpp"

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>

#include <gtest/gtest.h>

namespace {

using imbrex::errc;
using imbrex::rule_operand;
using imbrex::status;
using imbrex::status_text;
using imbrex::tensor_role;

constexpr errc last_code = errc::isa_not_chosen;

bool contains(std::string_view text, std::string_view piece) { return text.find(piece) != std::string_view::npos; }

TEST(Status, DefaultIsOkAndTestsTrue) {
    constexpr status s;
    static_assert(s.ok() && s && s.code() == errc::ok);
    EXPECT_EQ(s.message().view(), "ok");
}

TEST(Status, AnErrorTestsFalseAndKeepsItsCodeAndValues) {
    constexpr status s{errc::workspace_too_small, 10, 4096};
    static_assert(!s.ok() && !s && s.code() == errc::workspace_too_small);
    static_assert(s.value(0) == 10 && s.value(1) == 4096 && s.value(2) == 0);
}

TEST(Status, CannotTurnIntoAnIntegerAndIsTriviallyCopyable) {
    static_assert(!std::is_convertible_v<status, bool> && !std::is_convertible_v<status, int>);
    static_assert(std::is_trivially_copyable_v<status> && std::is_trivially_copyable_v<status_text>);
}

TEST(Status, EveryCodeHasASentenceOfItsOwnThatFitsTheBuffer) {
    constexpr std::int64_t widest = std::numeric_limits<std::int64_t>::min() + 1;
    std::string earlier;
    for (int code = 1; code <= static_cast<int>(last_code); ++code) {
        status_text const text = status{static_cast<errc>(code), widest, widest, widest}.message();
        EXPECT_TRUE(text.view().starts_with("imbrex: ")) << code;
        EXPECT_FALSE(contains(text, "unknown error")) << code;
        EXPECT_LT(text.view().size(), 319u) << "cut: " << text.view();
        EXPECT_NE(text.view(), earlier) << code;
        earlier = text.view();
    }
}

TEST(Status, AnUnknownCodeIsSaidToBeUnknown) {
    EXPECT_TRUE(contains(status{static_cast<errc>(static_cast<int>(last_code) + 1)}.message(), "unknown error"));
}

struct sentence_case {
    status error;
    std::string_view pieces[3];
};

TEST(Status, SentencesNameTheTensorAndTheOffendingNumbers) {
    sentence_case const cases[] = {
        {status{errc::negative_size, tensor_role::key, -7}, {"key", "-7", "0 or more"}},
        {status{errc::too_long, tensor_role::value, 2147483648, 2147483647}, {"value", "2147483648", "2147483647"}},
        {status{errc::too_many, tensor_role::key, 2147483648, 2147483647},
         {"key", "2147483648 sequences or heads", "2147483647"}},
        {status{errc::head_dim_range, tensor_role::query, 2048, 1024}, {"query", "2048", "1024"}},
        {status{errc::head_dim_mismatch, 64, 80}, {"query has head_dim 64", "key has 80", "equal"}},
        {status{errc::heads_not_divisible, 12, 5},
         {"12 query heads", "5 kv heads", "divide (shapes are batch, tokens, heads, head_dim)"}},
        {status{errc::kv_heads_mismatch, 8, 4}, {"key has 8 heads", "value has 4", "equal"}},
        {status{errc::kv_tokens_mismatch, 100, 99}, {"key has 100 tokens", "value has 99", "equal"}},
        {status{errc::batch_mismatch, tensor_role::key, 3, 2}, {"key has batch 3", "query has 2", "1 to share"}},
        {status{errc::output_shape, 3, 63, 64}, {"axis 3", "is 63", "must be 64"}},
        {status{errc::dim_stride, tensor_role::value, 16}, {"value", "stride 16", "must be 1"}},
        {status{errc::too_far, tensor_role::key, 5, 1152921504606846976}, {"key", "size 5", "stride 1152921504606846976"}},
        {status{errc::null_data, tensor_role::output, 4096}, {"output", "4096 tokens", "null"}},
        {status{errc::misaligned, tensor_role::lse, 4}, {"lse", "alignment of 4", "multiple"}},
        {status{errc::output_self_overlap, tensor_role::output, 0, 5}, {"output", "stride 0", "size 5"}},
        {status{errc::output_overlaps_input, tensor_role::query}, {"output", "query", "in place"}},
        {status{errc::lse_overlap, tensor_role::output}, {"lse", "output", "its own"}},
        {status{errc::over_capacity, tensor_role::key, 513, 512}, {"key", "513", "512"}},
        {status{errc::over_batch, tensor_role::query, 3, 2}, {"query has batch 3", "at most 2", "new plan"}},
        {status{errc::plan_not_made}, {"plan is empty", "make_plan", "status"}},
        {status{errc::plan_dtype, 1, imbrex::packed_name("f8_e4m3"), imbrex::packed_name("bf16")},
         {"key's element type is f8_e4m3 but", "made for bf16;", "new plan"}},
        {status{errc::plan_isa}, {"plan", "instruction set, which path_of", "here"}},
        {status{errc::plan_products, 1, 0}, {"products::as_stored", "products::widened", "same"}},
        {status{errc::plan_mismatch, 2, 64, 128}, {"head_dim is 64", "made for 128", "new plan"}},
        {status{errc::workspace_too_small, 10, 4096, 3},
         {"10 bytes", "4096 are needed for 3 workers", "(plan, 3), or allocate{}"}},
        {status{errc::workspace_overlap, tensor_role::value}, {"workspace", "value", "its own"}},
        {status{errc::out_of_memory, 4096}, {"4096 bytes", "allocating", "failed"}},
        {status{errc::no_workers, 0, 65536}, {"max_workers() = 0", "between 1 and 65536", "executor"}},
        {status{errc::tiles_unsupported, 24, 48, 256}, {"24 x 48", "q_rows x kv_cols", "256"}},
        {status{errc::scale_not_finite}, {"scale", "finite", "1/sqrt(head_dim)"}},
        {status{errc::rule_too_short, static_cast<std::int64_t>(rule_operand::slopes), 8, 40},
         {"slopes", "8 entries", "needs 40"}},
        {status{errc::rule_axis, 3, 256, 16}, {"256 keys", "16", "1 that serves all"}},
        {status{errc::rule_value, static_cast<std::int64_t>(rule_operand::segment_ids), 3, 17},
         {"segment ids holds 3 at 17", "do not fall", "stride"}},
        {status{errc::starts_missing, tensor_role::query}, {"query's sequence starts", "empty", "one entry more"}},
        {status{errc::starts_order, tensor_role::key, -4, 7},
         {"key's sequence starts", "-4 at entry 7", "less than the entry before"}},
        {status{errc::starts_beyond, tensor_role::key, 130, 128}, {"key's sequences", "token 130", "128 tokens"}},
        {status{errc::starts_overlap, tensor_role::query}, {"query's sequence starts", "workspace", "their own"}},
        {status{errc::packed_batch, tensor_role::value, 2}, {"value", "batch 2", "must be 1"}},
        {status{errc::sequence_count, tensor_role::key, 3, 4}, {"key has 3", "query has 4", "as many"}},
        {status{errc::plan_layout}, {"one run", "pages, a ring", "kv_layout::paged"}},
        {status{errc::lengths_count, 3, 4}, {"3 kv lengths", "4 sequences", "one for each"}},
        {status{errc::length_range, -5, 2, 64}, {"sequence 2 is -5", "between 0 and 64", "kv length"}},
        {status{errc::page_count, 64, 63}, {"key has 64 pages", "value has 63", "as many"}},
        {status{errc::page_size, 12}, {"12 tokens", "of 0", "room"}},
        {status{errc::page_id, 17, 77, 64}, {"id 17 is 77", "64 pages", "check the table"}},
        {status{errc::table_lists, 2, 3}, {"2 starts", "needs 3", "one entry more"}},
        {status{errc::table_order, 1, 4, -1}, {"sequence 1", "starts at 4", "-1 ids"}},
        {status{errc::table_width, 1, 4, 3}, {"sequence 1 needs 4 pages", "has 3", "block_table.width, or starts"}},
        {status{errc::table_ids, 1, 6, 4}, {"sequence 1", "id 6", "only 4 ids"}},
        {status{errc::prefix_mismatch, 2, 64, 128}, {"key's head_dim is 64 in the prefix", "128", "equal"}},
        {status{errc::group_not_whole, tensor_role::key, 80, 32}, {"key has rows of 80", "groups of 32", "divide"}},
        {status{errc::pairs_not_whole, tensor_role::key, 40, 16}, {"key has rows of 40", "int4", "16 at a time"}},
        {status{errc::scales_shape, tensor_role::value, 16, 64}, {"value's scales are 16", "64 are needed"}},
        {status{errc::append_shape, tensor_role::key, 8, 4, 2}, {"new key rows have 8 heads", "the cache has 4", "equal"}},
        {status{errc::append_first, 3, 2}, {"3 first slots", "2 sequences"}},
        {status{errc::append_beyond, 1, 130, 128}, {"sequence 1", "end with slot 129", "are 128 slots, counted from 0"}},
        {status{errc::append_positions, 4, 3}, {"4 positions", "3 new tokens"}},
        {status{errc::append_overlap, tensor_role::key, static_cast<std::int64_t>(tensor_role::value)}, {"cache of keys", "new values", "not in place"}},
        {status{errc::append_caches_overlap}, {"caches of keys and values", "MLA", "share memory"}},
        {status{errc::append_shared_slot, 3, 1, 77}, {"sequences 3 and 1", "page 77", "copy on write"}},
        {status{errc::rope_dim, 66, 64}, {"rotary_dim is 66", "head_dim, 64", "even"}},
        {status{errc::rope_frequencies_short, 16, 32}, {"16 frequencies", "32, half"}},
        {status{errc::rope_position, 4096, 2048}, {"position 4096", "2048"}},
        {status{errc::part_shape, imbrex::part_output(3), 1, 5}, {"part 3's output", "5 on axis 1", "one shape"}},
        {status{errc::part_overlap, tensor_role::lse, static_cast<std::int64_t>(imbrex::part_lse(12))}, {"part 12's lse", "merged lse", "in place"}},
        {status{errc::isa_not_chosen}, {"no code of this binary", "IMBREX_ISA", "reason()"}},
    };
    int expected_code = 1;
    for (sentence_case const& one : cases) {
        EXPECT_EQ(static_cast<int>(one.error.code()), expected_code++) << "a code without a case";
        for (std::string_view const piece : one.pieces) {
            status_text const text = one.error.message();
            EXPECT_TRUE(contains(text, piece)) << '"' << piece << "\" is not in: " << text.view();
        }
    }
    EXPECT_EQ(expected_code, static_cast<int>(last_code) + 1);
}

TEST(Status, RopeWithFrequenciesButNothingToTurnIsToldSo) {
    EXPECT_TRUE(contains(status{errc::rope_dim, 0, 64}.message(), "rotary_dim is 0; set it"));
}

TEST(Status, SentencesFitTheirNumbers) {
    auto const expect = [](status const& s, std::string_view piece) {
        EXPECT_TRUE(contains(s.message(), piece)) << s.message().c_str();
    };
    auto const rule = [](rule_operand operand, std::int64_t value, std::int64_t at) {
        return status{errc::rule_value, static_cast<std::int64_t>(operand), value, at};
    };
    expect({errc::append_beyond, 2, -1, 128}, "the first slot of sequence 2 is -1; it must be 0 or more");
    expect({errc::append_beyond, 2, 2, 1}, "end with slot 1 but there is 1 slot,");
    expect({errc::append_shape, tensor_role::value, 3, 2, 0}, "new value rows have 3 sequences but the new keys have 2;");
    expect({errc::append_shape, tensor_role::value, 32, 64, 3}, "32 numbers a row (head_dim) but the cache has 64");
    expect({errc::over_capacity, tensor_role::key, 1, 0}, "key has 1 token but");
    expect({errc::workspace_too_small, 1, 64, 1}, "has 1 byte but 64 are needed for 1 worker;");
    expect(rule(rule_operand::softcap, imbrex::not_a_number, 0), "softcap is NaN; it must be a finite number");
    expect(rule(rule_operand::window, -2, 0), "window is -2 on the left; it must be 0 or more");
    expect(rule(rule_operand::window, -2, 1), "window is -2 on the right;");
    expect(rule(rule_operand::key_lengths, 9, 3), "key lengths holds 9 at 3; it may hold 0 up to the number of keys");
}

TEST(Status, ANameOfUpToEightCharactersIsKeptInANumber) {
    for (std::string_view const name : {"", "f32", "f8_e4m3", "eight_ch"}) {
        status_text text;
        EXPECT_EQ(text.name(imbrex::packed_name(name)).view(), name);
    }
    status_text text;
    EXPECT_EQ(text.name(imbrex::packed_name("nine_char")).view(), "nine_cha");
}

TEST(Status, RolesHaveNamesAndOthersAreTensors) {
    EXPECT_EQ(imbrex::role_name(static_cast<std::int64_t>(tensor_role::query)), "query");
    EXPECT_EQ(imbrex::role_name(static_cast<std::int64_t>(tensor_role::lse)), "lse");
    EXPECT_EQ(imbrex::role_name(-1), "tensor");
    EXPECT_EQ(imbrex::role_name(5), "tensor");
    EXPECT_EQ(imbrex::role_text(static_cast<std::int64_t>(tensor_role::output)).view(), "output");
    EXPECT_EQ(imbrex::role_text(static_cast<std::int64_t>(imbrex::part_output(0))).view(), "part 0's output");
    EXPECT_EQ(imbrex::role_text(static_cast<std::int64_t>(imbrex::part_lse(41))).view(), "part 41's lse");
}

TEST(StatusText, WritesTheExtremesOfInt64InFull) {
    status_text text;
    text << std::numeric_limits<std::int64_t>::min() << " " << std::numeric_limits<std::int64_t>::max();
    EXPECT_EQ(text.view(), "-9223372036854775808 9223372036854775807");
}

TEST(StatusText, CutsWhatDoesNotFitAndStaysTerminated) {
    status_text text;
    std::string const piece(100, 'x');
    for (int i = 0; i < 5; ++i) text << piece;
    text << std::int64_t{123456};
    EXPECT_EQ(text.view(), std::string(319, 'x'));
    EXPECT_EQ(std::string_view{text.c_str()}, text.view());
}

TEST(StatusText, ReadsAsACStringAndAsAStringView) {
    status_text const text = status{errc::no_workers, -1}.message();
    std::string_view const view = text;
    EXPECT_STREQ(text.c_str(), std::string{view}.c_str());
}

}    // namespace
