# title: urtrs doctor --rdma on soft-RoCE: devices and the path between them; docs/hardware.md shows the output
# only: client=urtrs server=urtrs invalidate=on paths=1
# limit: 500
# runs: tools/urtrs/urtrs
urtrs=$LAB_BUILD/tools/urtrs/urtrs
ours=$(address 1 client)
theirs=$(address 1 server)

"$urtrs" doctor --rdma --rdma-device=rxe1s >"$RESULT/doctor.txt" || { cat "$RESULT/doctor.txt"; fail "the device has something wrong"; }
cat "$RESULT/doctor.txt"
"$urtrs" doctor --rdma --rdma-device=rxe1c --rounds=200 --json >"$RESULT/doctor.json" || fail "the other end has something wrong"
note "both devices are good"

"$urtrs" doctor --rdma --listen "$theirs" >"$RESULT/listen.txt" 2>"$RUN/listen.log" &
listener=$!
wait_quietly 20 grep -q listening "$RUN/listen.log" || { cat "$RUN/listen.log"; fail "nobody listens"; }
"$urtrs" doctor --rdma "$ours@$theirs" --rounds=200 >"$RESULT/peer.txt" || { cat "$RESULT/peer.txt"; fail "the way to the peer"; }
cat "$RESULT/peer.txt"
kill -INT $listener
code=0
wait $listener || code=$?
cat "$RESULT/listen.txt"
[ $code = 130 ] || fail "the one that listens ended with $code"
grep -q '^ok .*200 rounds' "$RESULT/listen.txt" || fail "it did not count the rounds"
note "a peer is tested"

# If the path is cut, the tool must report the silent peer within its timeout.
"$urtrs" doctor --rdma --listen "$theirs" >/dev/null 2>"$RUN/listen2.log" &
listener=$!
wait_quietly 20 grep -q listening "$RUN/listen2.log" || fail "nobody listens"
lose 1 both
code=0
"$urtrs" doctor --rdma "$ours@$theirs" >"$RESULT/cut.txt" || code=$?
[ $code = 4 ] || { cat "$RESULT/cut.txt"; fail "a peer that is silent"; }
heal_all
kill -INT $listener
wait $listener || true
note "a silent peer is found: $(grep -m1 '^failed' "$RESULT/cut.txt")"
