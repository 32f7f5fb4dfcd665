// The specification of one sector, for Porcupine.
//
// A client sends a write again after it lost a path, so that a write may take effect several times between
// its invocation and its end, and at least once if it succeeds. Porcupine's operations take effect once. A
// write is therefore two instants, its begin and its end; while it is open, it may take effect at any time.
package main

import (
	"encoding/binary"
	"sort"

	"github.com/anishathalye/porcupine"
)

type kind int

const (
	begin kind = iota
	end
	read
)

type input struct {
	kind  kind
	op    int64
	value int64 // content that the write leaves
	must  bool  // end: the write succeeded, so that it has taken effect
}

// open is a write in flight. done: its effect may be in the past, either because it took effect, or because
// another write took effect since it began, which may have followed immediately.
type open struct {
	op, value int64
	done      bool
}

type state struct {
	content int64
	opens   string // encoded and sorted, so that equal states are ==
}

const openBytes = 17

func encode(content int64, opens []open) state {
	sort.Slice(opens, func(a, b int) bool { return opens[a].op < opens[b].op })
	bytes := make([]byte, 0, len(opens)*openBytes)
	for _, one := range opens {
		var word [openBytes]byte
		binary.LittleEndian.PutUint64(word[0:], uint64(one.op))
		binary.LittleEndian.PutUint64(word[8:], uint64(one.value))
		if one.done {
			word[16] = 1
		}
		bytes = append(bytes, word[:]...)
	}
	return state{content, string(bytes)}
}

func (s state) decode() []open {
	opens := make([]open, 0, len(s.opens)/openBytes)
	for at := 0; at < len(s.opens); at += openBytes {
		word := []byte(s.opens[at : at+openBytes])
		opens = append(opens, open{int64(binary.LittleEndian.Uint64(word)),
			int64(binary.LittleEndian.Uint64(word[8:])), word[16] == 1})
	}
	return opens
}

// takeEffect returns the state after one of the open writes has taken effect.
func takeEffect(value int64, opens []open) state {
	after := append([]open(nil), opens...)
	for at := range after {
		after[at].done = true
	}
	return encode(value, after)
}

func without(s state, op int64) state {
	opens := s.decode()
	kept := opens[:0]
	for _, one := range opens {
		if one.op != op {
			kept = append(kept, one)
		}
	}
	return encode(s.content, kept)
}

// next returns the states that the sector may have after one operation in this state.
func next(s state, in input, returned interface{}) []state {
	opens := s.decode()
	var after []state
	switch in.kind {
	case begin:
		return []state{encode(s.content, append(opens, open{in.op, in.value, false}))}
	case read:
		if s.content == returned.(int64) {
			after = append(after, s)
		}
		for _, one := range opens {
			if one.value == returned.(int64) {
				after = append(after, takeEffect(one.value, opens))
			}
		}
		return after
	}
	done := !in.must
	for _, one := range opens {
		done = done || (one.op == in.op && one.done)
	}
	if done {
		after = append(after, without(s, in.op))
	}
	for _, one := range opens {
		// If another write takes effect now, this one may have done so immediately before.
		if one.op == in.op || !done {
			after = append(after, without(takeEffect(one.value, opens), in.op))
		}
	}
	return after
}

// covers: every continuation that is legal from b is legal from a, in which more writes are done.
func (a state) covers(b state) bool {
	if a.content != b.content || len(a.opens) != len(b.opens) {
		return false
	}
	for at := range a.opens {
		isFlag := at%openBytes == openBytes-1
		if a.opens[at] != b.opens[at] && !(isFlag && a.opens[at] == 1) {
			return false
		}
	}
	return true
}

// add adds a state to a set in which no state covers another.
func add(set []state, fresh state) []state {
	kept := set[:0]
	for _, one := range set {
		if one.covers(fresh) {
			return set
		}
		if !fresh.covers(one) {
			kept = append(kept, one)
		}
	}
	return append(kept, fresh)
}

func step(before, what, returned interface{}) (bool, interface{}) {
	var after []state
	for _, one := range before.([]state) {
		for _, fresh := range next(one, what.(input), returned) {
			after = add(after, fresh)
		}
	}
	sort.Slice(after, func(a, b int) bool {
		return after[a].content < after[b].content ||
			(after[a].content == after[b].content && after[a].opens < after[b].opens)
	})
	return len(after) > 0, after
}

func equal(a, b interface{}) bool {
	left, right := a.([]state), b.([]state)
	if len(left) != len(right) {
		return false
	}
	for at := range left {
		if left[at] != right[at] {
			return false
		}
	}
	return true
}

// A state of the model is the set of states that the sector may have.
var sectorModel = porcupine.Model{
	Init:  func() interface{} { return []state{{}} },
	Step:  step,
	Equal: equal,
}

// sectorOperations returns the operations of each sector. Line i becomes the times 2i and 2i + 1, so that
// no two events are simultaneous.
func sectorOperations(h *history) map[place][]porcupine.Operation {
	sectors := map[place][]porcupine.Operation{}
	put := func(where place, in input, call, finish int64, out interface{}) {
		sectors[where] = append(sectors[where],
			porcupine.Operation{Input: in, Call: call, Output: out, Return: finish})
	}
	for _, o := range h.operations {
		for at := uint64(0); at < o.sectors; at++ {
			where := place{o.disk, o.sector + at}
			switch {
			case o.changes():
				put(where, input{kind: begin, op: o.op, value: o.value()}, 2*o.invoked, 2*o.invoked+1, nil)
				if o.closed != 0 {
					put(where, input{kind: end, op: o.op, must: o.end == ok}, 2*o.closed, 2*o.closed+1, nil)
				}
			case o.kind == "read" && o.end == ok:
				put(where, input{kind: read, op: o.op}, 2*o.invoked, 2*o.returned+1, o.read[at])
			}
		}
	}
	return sectors
}
