// What a call came to: a code and the offending integers, turned into one sentence when somebody asks.
// No heap, no exceptions; trivially copyable, so it crosses translation units and dispatchers.
#pragma once

#include <charconv>
#include <cstdint>
#include <limits>
#include <string_view>

#include "imbrex/config.hpp"
#include "imbrex/products.hpp"

namespace imbrex {

enum class errc : std::int32_t {
    ok = 0,
    negative_size,
    too_long,
    too_many,
    head_dim_range,
    head_dim_mismatch,
    heads_not_divisible,
    kv_heads_mismatch,
    kv_tokens_mismatch,
    batch_mismatch,
    output_shape,
    dim_stride,
    too_far,
    null_data,
    misaligned,
    output_self_overlap,
    output_overlaps_input,
    lse_overlap,
    over_capacity,
    over_batch,
    plan_not_made,
    plan_dtype,
    plan_isa,
    plan_products,
    plan_mismatch,
    workspace_too_small,
    workspace_overlap,
    out_of_memory,
    no_workers,
    tiles_unsupported,
    scale_not_finite,
    rule_too_short,
    rule_axis,
    rule_value,
    starts_missing,
    starts_order,
    starts_beyond,
    starts_overlap,
    packed_batch,
    sequence_count,
    plan_layout,
    lengths_count,
    length_range,
    page_count,
    page_size,
    page_id,
    table_lists,
    table_order,
    table_width,
    table_ids,
    prefix_mismatch,
    group_not_whole,
    pairs_not_whole,
    scales_shape,
    append_shape,
    append_first,
    append_beyond,
    append_positions,
    append_overlap,
    append_caches_overlap,
    append_shared_slot,
    rope_dim,
    rope_frequencies_short,
    rope_position,
    part_shape,
    part_overlap,
    isa_not_chosen,
};

// The operand of a rule that an error speaks of.
enum class rule_operand : std::int64_t {
    slopes,
    key_lengths,
    left_padding,
    segment_ids,
    sequence_starts,
    sink_logits,
    mask_tensor,
    bias_tensor,
    relative_bias,
    tree,
    block_mask,
    scales,
    window,
    chunk,
    softcap,
    prefix,
};

constexpr std::string_view operand_name(std::int64_t operand) noexcept {
    constexpr std::string_view names[] = {"slopes",          "key lengths", "left padding", "segment ids",
                                          "sequence starts", "sink logits", "mask tensor",  "bias tensor",
                                          "relative bias",   "tree",        "block mask",   "scales",
                                          "window",          "chunk",       "softcap",      "prefix"};
    return operand >= 0 && operand < 16 ? names[operand] : std::string_view{"operand"};
}

// What the operand may hold.
constexpr std::string_view operand_range(std::int64_t operand) noexcept {
    using enum rule_operand;
    switch (static_cast<rule_operand>(operand)) {
        case key_lengths:
        case left_padding: return "0 up to the number of keys";
        case segment_ids: return "ids that do not fall along a row, and a stride of 0 or more";
        case sequence_starts: return "0 up to the number of keys, none less than the one before";
        case relative_bias: return "0 up to 1073741823";
        case tree: return "no more nodes than keys, entries before their exits and parents before their children";
        case block_mask: return "sizes of blocks from 1 on, and 0, 1 or 2 for a block";
        case scales: return "1 or more";
        case window:
        case prefix: return "0 or more";
        case chunk: return "1 up to 2147483647";
        case softcap: return "a finite number of at least 2^-126";
        default: return "what the rule's header says";
    }
}

// Whether the operand is one number, not many.
constexpr bool is_one_number(std::int64_t operand) noexcept {
    using enum rule_operand;
    auto const o = static_cast<rule_operand>(operand);
    return o == relative_bias || o == scales || o == window || o == chunk || o == softcap;
}

// Stands for a number that is none, in place of a value.
constexpr std::int64_t not_a_number = std::numeric_limits<std::int64_t>::min();

// A name of up to 8 characters, as a status holds it.
constexpr std::int64_t packed_name(std::string_view name) noexcept {
    std::uint64_t packed = 0;
    for (std::size_t i = 0; i < name.size() && i < 8; ++i) packed |= std::uint64_t{static_cast<unsigned char>(name[i])} << 8 * i;
    return static_cast<std::int64_t>(packed);
}

// A number of things: "1 token", "2 tokens".
struct counted {
    std::int64_t n;
    std::string_view thing;
};

constexpr std::string_view shape_axis(std::int64_t axis) noexcept {
    constexpr std::string_view names[] = {"sequences", "tokens", "heads", "numbers a row (head_dim)"};
    return axis >= 0 && axis < 4 ? names[axis] : std::string_view{"entries"};
}

constexpr std::string_view score_axis(std::int64_t axis) noexcept {
    constexpr std::string_view names[] = {"sequences", "query heads", "queries", "keys", "blocks of queries", "blocks of keys"};
    return axis >= 0 && axis < 6 ? names[axis] : std::string_view{"entries"};
}

// The tensor an error speaks of.
enum class tensor_role : std::int64_t { query, key, value, output, lse };

constexpr std::string_view role_name(std::int64_t role) noexcept {
    constexpr std::string_view names[] = {"query", "key", "value", "output", "lse"};
    return role >= 0 && role < 5 ? names[role] : std::string_view{"tensor"};
}

// The roles of a merge's parts, which are numbered from 0.
constexpr std::int64_t first_part_role = 16;
constexpr tensor_role part_output(std::int64_t part) noexcept { return static_cast<tensor_role>(first_part_role + 2 * part); }
constexpr tensor_role part_lse(std::int64_t part) noexcept { return static_cast<tensor_role>(first_part_role + 2 * part + 1); }

constexpr std::string_view plan_property(std::int64_t property) noexcept {
    constexpr std::string_view names[] = {"the number of query heads", "the number of kv heads", "head_dim", "value's head_dim"};
    return property >= 0 && property < 4 ? names[property] : std::string_view{"a property"};
}

constexpr std::string_view prefix_property(std::int64_t property) noexcept {
    constexpr std::string_view names[] = {"key's number of heads", "value's number of heads", "key's head_dim",
                                          "value's head_dim"};
    return property >= 0 && property < 4 ? names[property] : std::string_view{"a property"};
}

// A sentence in a fixed buffer; longer ones are cut, never overrun. Its functions are not inlined: where they were, each file
// that asks for a message took g++ 12 a second longer (2026-12-01).
class status_text {
public:
    constexpr std::string_view view() const noexcept { return {text_, size_}; }
    constexpr char const* c_str() const noexcept { return text_; }
    constexpr operator std::string_view() const noexcept { return view(); }

    IMBREX_NOINLINE constexpr status_text& operator<<(std::string_view piece) noexcept {
        for (char const c : piece) {
            if (size_ + 1 < sizeof text_) text_[size_++] = c;
        }
        text_[size_] = '\0';
        return *this;
    }
    IMBREX_NOINLINE status_text& operator<<(std::int64_t number) noexcept {
        char digits[24];
        auto const end = std::to_chars(digits, digits + sizeof digits, number).ptr;
        return *this << std::string_view{digits, static_cast<std::size_t>(end - digits)};
    }
    IMBREX_NOINLINE status_text& operator<<(counted const& c) noexcept {
        return *this << c.n << " " << c.thing << (c.n == 1 ? "" : "s");
    }
    // A packed_name.
    constexpr status_text& name(std::int64_t packed) noexcept {
        for (auto rest = static_cast<std::uint64_t>(packed); (rest & 255) != 0; rest >>= 8) {
            char const c = static_cast<char>(rest & 255);
            *this << std::string_view{&c, 1};
        }
        return *this;
    }

private:
    char text_[320] = {};
    std::size_t size_ = 0;
};

// The tensor's name, with the number of the part that it belongs to.
IMBREX_NOINLINE inline status_text role_text(std::int64_t role) noexcept {
    status_text t;
    if (role < first_part_role) return t << role_name(role);
    std::int64_t const of = role - first_part_role;
    return t << "part " << of / 2 << (of % 2 == 0 ? "'s output" : "'s lse");
}

class [[nodiscard]] status {
public:
    constexpr status() noexcept = default;
    constexpr status(errc code, std::int64_t a = 0, std::int64_t b = 0, std::int64_t c = 0, std::int64_t d = 0) noexcept
        : code_{code}, values_{a, b, c, d} {}
    constexpr status(errc code, tensor_role role, std::int64_t b = 0, std::int64_t c = 0, std::int64_t d = 0) noexcept
        : status{code, static_cast<std::int64_t>(role), b, c, d} {}

    constexpr bool ok() const noexcept { return code_ == errc::ok; }
    constexpr explicit operator bool() const noexcept { return ok(); }
    constexpr errc code() const noexcept { return code_; }
    // The offending integers, 0 <= i < 4; the sentence tells what they are.
    constexpr std::int64_t value(int i) const noexcept { return values_[i]; }

    // What is wrong, with the values, and what to do, in one sentence.
    status_text message() const noexcept {
        status_text t;
        tell(t);
        return t;
    }

private:
    inline status_text& tell(status_text& t) const noexcept;

    errc code_ = errc::ok;
    std::int64_t values_[4] = {};
};

inline status_text& status::tell(status_text& t) const noexcept {
    auto const [a, b, c, d] = values_;
    switch (code_) {
        case errc::ok: return t << "ok";
        case errc::negative_size:
            return t << "imbrex: " << role_text(a) << " has a negative size " << b << "; every size must be 0 or more";
        case errc::too_long:
            return t << "imbrex: " << role_text(a) << " has " << b << " rows, more than the " << c
                     << " that token positions can count; split the call";
        case errc::too_many:
            return t << "imbrex: " << role_text(a) << " has " << b << " sequences or heads, more than the " << c
                     << " that can be counted; split the call";
        case errc::head_dim_range:
            return t << "imbrex: " << role_text(a) << " has head_dim " << b << "; it must be between 1 and " << c;
        case errc::head_dim_mismatch:
            return t << "imbrex: query has head_dim " << a << " but key has " << b << "; they must be equal";
        case errc::heads_not_divisible:
            return t << "imbrex: " << a << " query heads are no multiple of " << b
                     << " kv heads; pass views whose head counts divide (shapes are batch, tokens, heads, head_dim)";
        case errc::kv_heads_mismatch:
            return t << "imbrex: key has " << counted{a, "head"} << " but value has " << b << "; they must be equal";
        case errc::kv_tokens_mismatch:
            return t << "imbrex: key has " << counted{a, "token"} << " but value has " << b << "; they must be equal";
        case errc::batch_mismatch:
            return t << "imbrex: " << role_text(a) << " has batch " << b << " but the query has " << c
                     << "; make them equal, or 1 to share one kv among all";
        case errc::output_shape:
            return t << "imbrex: output's axis " << a << " (batch, tokens, heads, head_dim) is " << b << " but must be " << c;
        case errc::dim_stride:
            return t << "imbrex: " << role_text(a) << " has stride " << b
                     << " along head_dim; it must be 1, copy the tensor so that its last axis is contiguous";
        case errc::too_far:
            return t << "imbrex: " << role_text(a) << "'s axis of size " << b << " and stride " << c
                     << " reaches further than addresses do; check its shape and strides";
        case errc::null_data:
            return t << "imbrex: " << role_text(a) << " has " << counted{b, "token"}
                     << " but its data pointer is null; pass its memory";
        case errc::misaligned:
            return t << "imbrex: " << role_text(a) << "'s data pointer is not a multiple of its element's alignment of " << b
                     << " bytes; align it";
        case errc::output_self_overlap:
            return t << "imbrex: " << role_text(a) << "'s stride " << b << " on an axis of size " << c
                     << " lets two results share an address; give each its own";
        case errc::output_overlaps_input:
            return t << "imbrex: output shares memory with " << role_text(a) << "; attention cannot run in place";
        case errc::lse_overlap: return t << "imbrex: lse shares memory with " << role_text(a) << "; give it memory of its own";
        case errc::over_capacity:
            return t << "imbrex: " << role_text(a) << " has " << counted{b, "token"} << " but the plan was made for at most " << c
                     << "; make a new plan";
        case errc::over_batch:
            return t << "imbrex: " << role_text(a) << " has batch " << b << " but the plan was made for at most " << c
                     << "; make a new plan";
        case errc::plan_not_made: return t << "imbrex: the plan is empty; call make_plan first and look at its status";
        case errc::plan_dtype:
            t << "imbrex: " << role_text(a) << "'s element type is ";
            t.name(b) << " but the plan was made for ";
            return t.name(c) << "; make a new plan";
        case errc::plan_isa:
            return t << "imbrex: the plan was made by code compiled for another instruction set, which path_of(plan) names; "
                        "make it here";
        case errc::plan_products:
            return t << "imbrex: the plan was made for products::" << name_of(static_cast<products>(b))
                     << " but the call asks for products::" << name_of(static_cast<products>(a)) << "; name the same for both";
        case errc::plan_mismatch:
            return t << "imbrex: " << plan_property(a) << " is " << b << " but the plan was made for " << c
                     << "; make a new plan";
        case errc::workspace_too_small:
            return t << "imbrex: the workspace has " << counted{a, "byte"} << " but " << b << " are needed for "
                     << counted{c, "worker"} << "; pass workspace_bytes(plan, " << c
                     << "), or allocate{} to let the call allocate them";
        case errc::workspace_overlap:
            return t << "imbrex: the workspace shares memory with " << role_text(a) << "; give it memory of its own";
        case errc::out_of_memory: return t << "imbrex: allocating a workspace of " << a << " bytes failed";
        case errc::no_workers:
            return t << "imbrex: the executor says max_workers() = " << a << "; it must be between 1 and " << b;
        case errc::tiles_unsupported:
            return t << "imbrex: tiles of " << a << " x " << b << " (q_rows x kv_cols) do not fit this unit: q_rows must be a "
                     << "multiple of its lanes up to " << c << ", kv_cols a multiple of 16 between 16 and 2048";
        case errc::scale_not_finite:
            return t << "imbrex: the scale is not a finite number (of the scores' type); leave it unset for 1/sqrt(head_dim)";
        case errc::rule_too_short:
            return t << "imbrex: the rule's " << operand_name(a) << " has " << b << " entries but this call needs " << c
                     << "; pass at least that many";
        case errc::rule_axis:
            return t << "imbrex: a rule's tensor has " << b << " " << score_axis(a) << " but this call has " << c
                     << "; give it as many, or 1 that serves all";
        case errc::rule_value:
            t << "imbrex: the rule's " << operand_name(a) << (is_one_number(a) ? " is " : " holds ");
            if (b == not_a_number)
                t << "NaN";
            else
                t << b;
            if (a == static_cast<std::int64_t>(rule_operand::window)) t << (c == 0 ? " on the left" : " on the right");
            if (!is_one_number(a)) t << " at " << c;
            return t << (is_one_number(a) ? "; it must be " : "; it may hold ") << operand_range(a);
        case errc::starts_missing:
            return t << "imbrex: " << role_text(a)
                     << "'s sequence starts are empty; pass one entry more than there are sequences";
        case errc::starts_order:
            return t << "imbrex: " << role_text(a) << "'s sequence starts hold " << b << " at entry " << c
                     << ", which is negative or less than the entry before; they must not fall";
        case errc::starts_beyond:
            return t << "imbrex: " << role_text(a) << "'s sequences end at token " << b << " but it has " << counted{c, "token"}
                     << "; the last sequence start is the end of the last sequence";
        case errc::starts_overlap:
            return t << "imbrex: " << role_text(a)
                     << (a == 0 ? "'s sequence starts" : "'s sequence starts, lengths or block table")
                     << " share memory with the output, the lse or the workspace; give them memory of their own";
        case errc::packed_batch:
            return t << "imbrex: " << role_text(a) << " has batch " << b
                     << " but is packed; it must be 1, with all sequences along the tokens";
        case errc::sequence_count:
            return t << "imbrex: " << role_text(a) << " has " << b << " packed sequences but the query has " << c
                     << "; they must be as many";
        case errc::plan_layout:
            return t << "imbrex: the plan was made for keys and values in one run, but these come in pages, a ring or two parts; "
                     << "set problem.layout to kv_layout::paged";
        case errc::lengths_count:
            return t << "imbrex: there are " << a << " kv lengths but " << b << " sequences of queries; pass one for each";
        case errc::length_range:
            return t << "imbrex: the kv length of sequence " << b << " is " << a << " but must be between 0 and " << c;
        case errc::page_count:
            return t << "imbrex: key has " << counted{a, "page"} << " but value has " << b << "; they must be as many";
        case errc::page_size:
            return t << "imbrex: a sequence has " << counted{a, "token"} << " of keys but pages, or rings, of 0; give them room";
        case errc::page_id:
            return t << "imbrex: the block table's id " << a << " is " << b << " but there are " << c
                     << " pages, counted from 0; check the table, and the lengths that say how much of it is used";
        case errc::table_lists:
            return t << "imbrex: the block table has " << a << " starts but needs " << b
                     << ", one entry more than there are sequences";
        case errc::table_order:
            return t << "imbrex: the block table of sequence " << a << " starts at " << b << " and has " << c
                     << " ids; starts must not fall, and widths are 0 or more";
        case errc::table_width:
            return t << "imbrex: sequence " << a << " needs " << counted{b, "page"} << " for its length but its block table has "
                     << c << "; pass all its pages (set block_table.width, or starts), or its right length";
        case errc::table_ids:
            return t << "imbrex: the block table of sequence " << a << " reaches to id " << b << " but only " << c
                     << " ids were passed; pass `width` ids for each sequence";
        case errc::prefix_mismatch:
            return t << "imbrex: " << prefix_property(a) << " is " << b << " in the prefix but " << c
                     << " in the suffix; they must be equal";
        case errc::group_not_whole:
            return t << "imbrex: " << role_text(a) << " has rows of " << b << " numbers, which are no whole groups of " << c
                     << " that share a scale; choose a group that divides them";
        case errc::pairs_not_whole:
            return t << "imbrex: " << role_text(a) << " has rows of " << b << " numbers in int4, which are read " << c
                     << " at a time; make head_dim a multiple of that";
        case errc::scales_shape:
            return t << "imbrex: " << role_text(a) << "'s scales are " << b << " in all, or lie along other axes than its rows; "
                     << c << " are needed, see the encoding's header for their shape";
        case errc::append_shape:
            return t << "imbrex: the new " << role_text(a) << " rows have " << b << " " << shape_axis(d) << " but "
                     << (d < 2 && a == static_cast<std::int64_t>(tensor_role::value) ? "the new keys have " : "the cache has ")
                     << c << "; make them equal";
        case errc::append_first:
            return t << "imbrex: " << a << " first slots were passed for " << b
                     << " sequences; set append_options::first, one for each or one for all: how many tokens the cache has";
        case errc::append_beyond:
            if (b < 0) return t << "imbrex: the first slot of sequence " << a << " is " << b << "; it must be 0 or more";
            return t << "imbrex: the new tokens of sequence " << a << " end with slot " << b - 1 << " but there "
                     << (c == 1 ? "is " : "are ") << counted{c, "slot"} << ", counted from 0; make room first";
        case errc::append_positions:
            return t << "imbrex: " << a << " positions were passed for " << b << " new tokens; pass one for each, or none";
        case errc::append_overlap:
            return t << "imbrex: the cache of " << role_text(a) << "s shares memory with the new " << role_text(b)
                     << "s; append writes to a cache, not in place";
        case errc::append_caches_overlap:
            return t << "imbrex: the caches of keys and values share memory, so that one would be written over the other; where "
                        "values are a part of the keys' rows (MLA), write the keys' rows only, else give each its own";
        case errc::append_shared_slot:
            return t << "imbrex: new tokens of sequences " << a << " and " << b << " go to one slot of page " << c
                     << "; give one of them a copy of the page (copy on write)";
        case errc::rope_dim:
            if (a == 0)
                return t << "imbrex: rope has frequencies or tables but its rotary_dim is 0; set it, even and at most head_dim, "
                         << b;
            return t << "imbrex: rotary_dim is " << a << " but must be even and between 0 and head_dim, " << b;
        case errc::rope_frequencies_short:
            return t << "imbrex: rope has " << a << " frequencies but needs " << b << ", half of rotary_dim";
        case errc::rope_position:
            return t << "imbrex: rope is to turn by position " << a << " but its tables of cosines and sines have " << b
                     << " rows; make longer tables";
        case errc::part_shape:
            return t << "imbrex: " << role_text(a) << " has " << c << " on axis " << b
                     << " (batch, tokens, heads, head_dim), unlike the merged output; give all of them one shape";
        case errc::part_overlap:
            return t << "imbrex: " << role_text(b) << " shares memory with the merged " << role_text(a)
                     << " without being it; merge in place into a part of the same type, data and strides, or into other memory";
        case errc::isa_not_chosen:
            return t << "imbrex: no code of this binary may run here, because IMBREX_ISA names a set that is not there, or this "
                        "processor is older than all (imbrex::compiled::reason() tells which); unset IMBREX_ISA or build for an "
                        "older set";
    }
    return t << "imbrex: unknown error";
}

}    // namespace imbrex
