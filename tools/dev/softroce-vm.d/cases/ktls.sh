# title: TLS of the fabric tcp with keys; kernel TLS (kTLS) at both ends, one end or no end; data are read back
# only: client=urtrs server=urtrs invalidate=on paths=1
# runs: conformance/contract/tcp_tls_contract_test
. "$LAB_GUEST/lib/tls"
LAB_FABRIC=tcp
tls_setup
log_says() { grep -c 'TLSv1.3 .*identity lab.*, sealed by the kernel' "$1" || true; }
# sealed_by SERVER (true or false) CLIENT (on or off): runs a session that writes data and reads them back.
# The arguments say at which end the kernel encrypts.
sealed_by() {
  local ends=0 before connections said
  [ "$1" = false ] || ends=$((ends + 1))
  [ "$2" = off ] || ends=$((ends + 1))
  URTRSD_OPTIONS="--tls-keys $LAB_TLS_KEYS --tls-kernel $1 --log-level debug"
  PLUGIN_OPTIONS="tls_keys=$LAB_TLS_KEYS tls_kernel=$2"
  before=$(tls_sealed)
  server_start
  client_map 0
  connections=$(tcp_connections 1234)
  [ "$connections" -gt 1 ] || fail "$connections connections"
  [ "$(tls_sealing)" = $((ends * connections)) ] ||
    fail "the kernel seals for $(tls_sealing) ends of $connections connections, and $ends ends want it"
  [ $(($(tls_sealed) - before)) = $((ends * connections)) ] || fail "TlsTxSw is $(tls_sealed), was $before"
  said=$(log_says "$RUN/urtrsd$urtrsd_count.log")
  if [ "$1" = true ]; then
    [ "$said" = "$connections" ] || fail "the log names $said of $connections connections that the kernel seals"
  else
    [ "$said" = 0 ] || fail "the log says that the kernel seals"
  fi
  verify 0 --rw=randwrite --bsrange=4k-124k --size=1M --iodepth=8
  dd if="$LAB_NOISE" of="$(device 0)" bs=64k count=16 oflag=direct status=none
  cmp -n $((1 << 20)) "$LAB_NOISE" <(dd if="$(device 0)" bs=128k count=8 iflag=direct status=none) || fail "read differs"
  cmp -n $((1 << 20)) "$LAB_NOISE" "$(disk_file 0)" || fail "the server's file differs"
  client_unmap 0
  server_stop
  wait_quietly 10 tls_rests || fail "the kernel still seals for $(tls_sealing) ends"
  ! grep -E '^(Tls[A-Za-z]*(Error|Violation|Retry)[A-Za-z]*) +[1-9]' /proc/net/tls_stat || fail "the kernel counts errors"
  note "server $1, client $2: $connections connections hold"
}
tls_rests() { [ "$(tls_sealing)" = 0 ]; }
sealed_by true on
sealed_by true off
sealed_by false on
sealed_by false off
# Run the contract test, which every fabric must pass.
before=$(tls_sealed)
"$LAB_BUILD/conformance/contract/tcp_tls_contract_test" --gtest_brief=1 --gtest_filter='*/kernel' ||
  fail "the contract, exit code $?"
[ "$(tls_sealed)" != "$before" ] || fail "the kernel did not seal"
note "the contract holds with $(($(tls_sealed) - before)) ends that the kernel sealed for"
