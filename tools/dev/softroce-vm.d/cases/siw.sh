# title: kernel iWARP (siw) as the peer of the fabric tcp: setup, CRC, writes, SENDs, teardown; detection of errors
# only: client=urtrs server=urtrs invalidate=on paths=1
# limit: 240
# runs: conformance/iwarp/iwarp_peer
# kernels: 6.12
# siw replaces soft-RoCE at the server end of path 1; the fabric tcp runs at the client end.
[ -e "$LAB_MODULES/siw.ko" ] || fail "no module siw"
rdma link delete rxe1s
modprobe -q libcrc32c
insmod "$LAB_MODULES/siw.ko" || fail "siw does not load"
rdma link add siw1s type siw netdev path1s || fail "no siw device"
ours=$(address 1 client)
theirs=$(address 1 server)
peer=$LAB_BUILD/conformance/iwarp/iwarp_peer
run=0
listens() { grep -qi ":$(printf %04X "$1") 00000000:0000 0A" /proc/net/tcp; }

# talk INITIATOR RESPONDER [fabric:WORD] [verbs:WORD] [flip=to-responder|to-initiator]: runs the script of
# messages once, with WORD as an argument of only that end. Sets $code to the number of ends that failed (0 to
# 2), and $first and $second to their logs.
talk() {
  local initiator=$1 responder=$2 word flip='' at asked
  local -A more=()
  shift 2
  for word; do
    case $word in flip=*) flip=${word#*=} ;; *) more[${word%%:*}]+=" ${word#*:}" ;; esac
  done
  run=$((run + 1))
  first=$RUN/run$run-$initiator.log second=$RUN/run$run-$responder.log proxy=$RUN/run$run-between.log
  local port=$((4000 + 2 * run)) address=$ours source=$theirs
  [ "$responder" = fabric ] || address=$theirs source=$ours
  "$peer" "$responder" responder "$address" $port ${more[$responder]-} >"$second" 2>&1 &
  local server=$!
  wait_quietly 10 listens $port || { cat "$second"; fail "the responder does not listen"; }
  at=$address asked=$port
  if [ -n "$flip" ]; then
    at=$ours asked=$((port + 1))
    iwarp-between "$at" $asked "$address" $port "$flip" >"$proxy" 2>&1 &
    wait_quietly 20 listens $asked || { cat "$proxy"; fail "nothing stands in between"; }
  fi
  code=0
  "$peer" "$initiator" initiator "$source@$at" $asked ${more[$initiator]-} >"$first" 2>&1 || code=$((code + 1))
  # If one end failed, the other end may wait forever for its next message.
  [ $code = 0 ] || wait_quietly 3 no_pid $server || kill $server
  wait $server || code=$((code + 1))
}
holds() {
  local initiator=$1
  talk "$@"
  [ $code = 0 ] || { tail -n 5 "$first" "$second"; fail "$*"; }
  [ "$(grep -c 'talk holds' "$first")-$(grep -c 'talk holds' "$second")" = 6-6 ] || fail "$*: not the whole script"
  # The script ends with a write to an invalid key. The receiver must send a Terminate message with the reason and close
  # the connection. siw swaps layer and type in its message. The fabric logs only one warning per second, so its log may
  # lack the message.
  local log=$RUN/run$run-fabric.log
  grep -q 'talk holds, lost: protocol_violation' "$log" || fail "$*: the fabric took a wrong key"
  grep -q 'talk holds, lost: transport_error' "$log" || fail "$*: siw did not say that a key was wrong"
  [ "$initiator" = verbs ] || grep -q 'Terminate message 1/1/0' "$log" || fail "$*: siw said something else"
  note "$*: holds"
}
# finds WHO WORDS TALK...: runs the script with an injected error; the log of end WHO must contain WORDS.
finds() {
  local who=$1 words=$2
  shift 2
  talk "$@"
  local log=$first
  [ "$who" = initiator ] || log=$second
  [ $code != 0 ] && grep -q -e "$words" "$log" || { tail -n 5 "$first" "$second"; fail "$*: the $who does not find it"; }
  note "$*: $(grep -e "$words" "$log" | head -1)"
}

# Test both roles, without and with CRC. siw uses CRC if the peer requests it.
for crc in '' crc; do
  holds fabric verbs ${crc:+fabric:$crc}
  holds verbs fabric ${crc:+fabric:$crc}
done
# Each end must detect the errors of the other end.
finds responder 'FAILED: a write of 65536 differs' fabric verbs fabric:spoil=write
finds responder 'FAILED: a message differs' verbs fabric verbs:spoil=message
finds initiator 'FAILED: message 40 of many' verbs fabric fabric:spoil=order
finds initiator 'FAILED: private data of the answer differs' fabric verbs verbs:spoil=private-data
# Flips one bit on the wire. Without CRC the corrupted data must arrive; with CRC the receiver must close the
# connection with a reason.
flags_are() { [ "$(sed -n 's/^MPA ID Rep Frame: flags \(..\), revision 2,.*/\1/p' "$proxy")" = "$1" ] || fail "flags"; }
finds responder 'FAILED: a write of 65536 differs' fabric verbs flip=to-responder
flags_are 10
finds initiator 'Terminate message 0/2/2' fabric verbs fabric:crc flip=to-responder
flags_are 50
finds initiator 'a wrong CRC' fabric verbs fabric:crc flip=to-initiator
finds responder 'a wrong CRC' verbs fabric fabric:crc flip=to-responder
flags_are 50
finds responder 'Terminate message 0/2/2' verbs fabric fabric:crc flip=to-initiator
rdma link delete siw1s
rdma link add rxe1s type rxe netdev path1s
rmmod siw
