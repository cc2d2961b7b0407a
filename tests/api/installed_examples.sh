#!/usr/bin/env bash
# Installs Tenon to a fresh prefix, builds the examples against it with find_package and with pkg-config, runs them, and
# once more after the tree has moved. Usage: installed_examples.sh SOURCE_DIR BUILD_DIR CXX
set -euo pipefail
source_dir=$1 build_dir=$2 cxx=$3
python=${TENON_PYTHON:-python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build_dir" --prefix "$work/first" --component tenon >"$work/log" || { cat "$work/log"; exit 1; }
mv "$work/first" "$work/prefix"  # an installed tree may be moved
prefix=$work/prefix
"$python" "$source_dir/tests/api/make_model.py" "$work/small.onnx"

if grep -rIl -e "$source_dir" -e "$build_dir" "$prefix"; then
  echo "These installed files name the folder that they were built in." >&2
  exit 1
fi

# The library in ONNX Runtime's place is a component of its own, in a folder of its own; it needs nothing of the rest.
cmake --install "$build_dir" --prefix "$work/drop_in" --component drop_in >"$work/log" || { cat "$work/log"; exit 1; }
onnxruntime=$(find "$work/drop_in" -path '*/tenon/onnxruntime/libonnxruntime.so.1')
[[ -n $onnxruntime && -e ${onnxruntime%.1} && ! -e $prefix/lib/libonnxruntime.so.1 ]]
if grep -q -e "$source_dir" -e "$build_dir" "$onnxruntime"; then
  echo "libonnxruntime.so.1 names the folder that it was built in." >&2
  exit 1
fi
cc "$source_dir/tests/drop_in/linked.c" -I "$source_dir/include" -L "$(dirname "$onnxruntime")" -lonnxruntime -o "$work/linked"
LD_LIBRARY_PATH=$(dirname "$onnxruntime") "$work/linked" 2>&1 | grep -qx '1\.[0-9]*\.0 1'

cmake -G Ninja -S "$source_dir/examples" -B "$work/build" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_CXX_COMPILER="$cxx" \
  -DCMAKE_CXX_FLAGS="-Wall -Wextra -Werror" >"$work/log" || { cat "$work/log"; exit 1; }
cmake --build "$work/build" >"$work/log" || { cat "$work/log"; exit 1; }

export PKG_CONFIG_PATH
PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name tenon.pc)")
[[ $(pkg-config --modversion tenon) == "$(sed -n 's/^project(Tenon VERSION \([^ ]*\).*/\1/p' "$source_dir/CMakeLists.txt")" ]]
libdir=$(pkg-config --variable=libdir tenon)
for example in run_model shared_frame; do
  # shellcheck disable=SC2046
  "$cxx" -O1 -Wall -Wextra -Werror "$source_dir/examples/$example.cc" -o "$work/$example" \
    $(pkg-config --cflags --libs tenon) -Wl,-rpath,"$libdir"
done

for folder in "$work/build" "$work"; do
  "$folder/run_model" "$work/small.onnx" batch=2 | tee "$work/out"
  grep -q 'y: float32\[2,2,8,8\]' "$work/out"
  "$folder/shared_frame" "$work/small.onnx" batch=2 | tee "$work/out"
  grep -q 'consumer: 20 frames of 512 bytes in and 1024 bytes out, 0 bytes copied' "$work/out"
done

# The environment's switches: spans as JSON, topics on stderr, the graph and plan as text.
mkdir "$work/dump"
TENON_TRACE=dispatch,plan TENON_TRACE_FILE=$work/trace.json TENON_DUMP=$work/dump TENON_THREADS=2 \
  "$work/run_model" "$work/small.onnx" batch=2 >"$work/out" 2>"$work/err"
grep -q 'tenon: trace: dispatch: .* runs on ' "$work/err"
grep -q 'tenon: trace: plan: ' "$work/err"
"$python" - "$work/trace.json" <<'END'
import json, sys
spans = json.load(open(sys.argv[1]))
assert any(span["cat"] == "kernel" for span in spans), spans
END
ls "$work/dump" | grep -q plan.txt
if TENON_THREADS=many "$work/run_model" "$work/small.onnx" batch=2 2>"$work/err"; then exit 1; fi
grep -q 'TENON_THREADS is "many"' "$work/err"

# Bad input is a message and an exit code.
for size in 2x many -1 '' 99999999999999999999; do
  for example in run_model shared_frame; do
    if "$work/$example" "$work/small.onnx" batch=$size 2>"$work/out"; then exit 1; fi
    grep -q "\"batch=$size\" gives no whole number" "$work/out"
  done
done
if "$work/run_model" "$work/none.onnx" 2>"$work/out"; then exit 1; fi
grep -q 'none.onnx' "$work/out"
