#!/usr/bin/env bash
# Checks that an object exports nothing but the symbols it is meant to: no weak or unique symbol, no section group, nothing of
# imbrex or xsimd that it hopes to find compiled elsewhere, for other instructions, and nothing that runs before main, on whatever
# processor that is.
#     imbrex_check_isa_object.sh <nm> <readelf> <object> <wildcard to keep>...
set -euo pipefail
nm=$1 readelf=$2 object=$3
shift 3

faults=0 kept=0 other_table=
fault() {
    faults=$((faults + 1))
    if [ "$faults" -le 10 ]; then echo "$object: $1"; fi
}

matches_kept() {
    local symbol=$1 pattern
    shift
    for pattern in "$@"; do
        # shellcheck disable=SC2053 # the right side is a wildcard on purpose
        if [[ $symbol == $pattern ]]; then return 0; fi
    done
    return 1
}

defined=$("$nm" -P -g --defined-only "$object")
undefined=$("$nm" -P -u "$object")
while read -r symbol type _; do
    if [ -z "$symbol" ]; then continue; fi
    case $type in
    [WVu]) fault "weak or unique symbol left: $symbol" ;;
    *)
        if matches_kept "$symbol" "$@"; then
            kept=$((kept + 1))
        else
            fault "unexpected global symbol: $symbol"
            case $symbol in imbrex_dispatch_*) other_table=$symbol ;; esac
        fi
        ;;
    esac
done <<<"$defined"
while read -r symbol _; do
    case $symbol in
    _Z*6imbrex* | _Z*5xsimd*) fault "needs code of another object: $symbol" ;;
    esac
done <<<"$undefined"
groups=$("$readelf" --section-groups "$object")
case $groups in
*"no section groups"*) ;;
*) fault "section groups (COMDAT) left" ;;
esac
sections=$("$readelf" --sections --wide "$object")
case $sections in
*" .init_array"* | *" .ctors"* | *" .preinit_array"*)
    fault "has code that runs before main: dynamic initializers, or #include <iostream> where that has one"
    ;;
esac
if [ "$kept" -eq 0 ]; then fault "exports none of: $*"; fi
if [ "$kept" -eq 0 ] && [ -n "$other_table" ]; then
    echo "imbrex_add_dispatch(<name>) and IMBREX_DISPATCH_TABLE(<table>, ...) have to be given the same name"
elif [ "$kept" -eq 0 ] && [[ $1 == imbrex_dispatch_* ]]; then
    echo "one of the sources has to have IMBREX_DISPATCH_TABLE(<table>, {...}), <table> being the name given to imbrex_add_dispatch()"
fi

if [ "$faults" -gt 0 ]; then
    echo "$object: $faults faults"
    exit 1
fi
echo "$object: exports $kept symbols, nothing else is visible"
