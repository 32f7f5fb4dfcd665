# title: group rnbd of blktests, unmodified, with our server
# only: client=kernel server=urtrs invalidate=on paths=1
# limit: 600
# Needs a copy of github.com/linux-blktests/blktests; URTRS_BLKTESTS is its path.
[ -n "${URTRS_BLKTESTS-}" ] || skip "URTRS_BLKTESTS does not name a copy of blktests"
[ -e "$URTRS_BLKTESTS/tests/rnbd/rc" ] || fail "no tests/rnbd/rc in $URTRS_BLKTESTS"
server_start
client_load_modules
# Replaces the functions of blktests that set up network and disk: the lab has set up the network, and the
# server exports loop0.
blktest() {
  cd "$URTRS_BLKTESTS"
  set +eu
  declare -A TEST_RUN
  TEST_NAME=rnbd/$1 FULL=$RUN/blktests-$1.log
  . "tests/rnbd/$1"
  start_soft_rdma() { :; }
  stop_soft_rdma() { :; }
  rdma_network_interfaces() { echo path1s; }
  losetup() { echo loop0; }
  test
  echo "${TEST_RUN[start/stop success ratio]-}" >"$RUN/blktests-$1.ratio"
}
for number in 001 002; do
  (blktest $number) >"$RUN/blktests-$number.out" 2>"$RUN/blktests-$number.errors.log" || fail "rnbd/$number"
  cmp "$URTRS_BLKTESTS/tests/rnbd/$number.out" "$RUN/blktests-$number.out" ||
    { cat "$RUN/blktests-$number.out" "$RUN/blktests-$number.errors.log"; fail "rnbd/$number printed something else"; }
  note "rnbd/$number passes $(cat "$RUN/blktests-$number.ratio")"
done
# Test 002 passes with any success ratio, so the ratio is checked here.
[ "$(cat "$RUN/blktests-002.ratio")" = 100/100 ] || fail "not every start and stop went well"
wait_for 40 "the server has forgotten the sessions" server_has_no_session
