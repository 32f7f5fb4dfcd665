# title: processor time of an IO over the fabric tcp without TLS, with TLS by OpenSSL, and with kernel TLS
# only: client=urtrs server=urtrs invalidate=on paths=1
# limit: 1200
# duration: 5 fast 1
# runs: tools/urtrs-perf/urtrs-perf
# DURATION: seconds per measurement. ROUNDS: number of rounds over all measurements.
. "$LAB_GUEST/lib/tls"
tls_setup
[ -z "${LAB_COUNTED-}" ] || ROUNDS=${ROUNDS-1}
tls-cost "$LAB_BUILD/tools/urtrs-perf/urtrs-perf" "$LAB_TLS_KEYS" "$(address 1 client)" "$(address 1 server)" \
  "$DURATION" "${ROUNDS-5}" "$RUN/tls-cost.json" >"$RUN/tls-cost.log" || { cat "$RUN/tls-cost.log"; fail "tls-cost"; }
cat "$RUN/tls-cost.log"
while read -r name value unit; do figure "$name" "$value" "$unit"; done < <(sed -n 's/^figure //p' "$RUN/tls-cost.log")
note "the kernel seals by $(kernel_aes_gcm)"
