# title: contract test for fabrics, with the verbs backend
# only: client=urtrs server=urtrs invalidate=on paths=1
# limit: 500
# runs: conformance/contract/verbs_contract_test
"$LAB_BUILD/conformance/contract/verbs_contract_test" --gtest_brief=1 || fail "see above"
