# title: urtrs-conform tests the server, over verbs
# only: client=urtrs paths=2
# limit: 1800
# runs: tools/urtrs-conform/urtrs-conform
QUEUE_DEPTH=512
server_start
known=()
[ "$SERVER" != kernel ] || known=(--baseline "$LAB_GUEST/../../../../conformance/cases/baseline-linux-6.12.json")
for n in 1 2; do known+=(--target "$(address $n client)@$(address $n server)"); done
"$LAB_BUILD/tools/urtrs-conform/urtrs-conform" --role server --fabric "$LAB_FABRIC" --device loop0 --scratch \
  --json "$RUN/conform.json" "${known[@]}" ${CONFORM_OPTIONS-} || fail "$(grep -c '\[failed\]' "$RESULT/log") cases; see above"
