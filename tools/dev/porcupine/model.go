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
	seen      int // number of reads of the value so far
	done      bool
}

// state is one of the states that a sector may have.
type state struct {
	content int64
	seen    int    // number of reads of the content so far, if no open write has this value
	opens   string // encoded and sorted, so that equal states are ==
}

const openBytes = 25

func encode(content int64, seen int, opens []open) state {
	sort.Slice(opens, func(a, b int) bool { return opens[a].op < opens[b].op })
	bytes := make([]byte, 0, len(opens)*openBytes)
	for _, one := range opens {
		var word [openBytes]byte
		binary.LittleEndian.PutUint64(word[0:], uint64(one.op))
		binary.LittleEndian.PutUint64(word[8:], uint64(one.value))
		binary.LittleEndian.PutUint64(word[16:], uint64(one.seen))
		if one.done {
			word[24] = 1
		}
		bytes = append(bytes, word[:]...)
	}
	return state{content, seen, string(bytes)}
}

func (s state) decode() []open {
	opens := make([]open, 0, len(s.opens)/openBytes+1)
	for at := 0; at < len(s.opens); at += openBytes {
		word := []byte(s.opens[at : at+openBytes])
		opens = append(opens, open{int64(binary.LittleEndian.Uint64(word)),
			int64(binary.LittleEndian.Uint64(word[8:])), int(binary.LittleEndian.Uint64(word[16:])), word[24] == 1})
	}
	return opens
}

// covers: every continuation that is legal from b is legal from s, in which more writes are done.
func (s state) covers(b state) bool {
	if s.content != b.content || s.seen != b.seen || len(s.opens) != len(b.opens) {
		return false
	}
	for at := range s.opens {
		isFlag := at%openBytes == openBytes-1
		if s.opens[at] != b.opens[at] && !(isFlag && s.opens[at] == 1) {
			return false
		}
	}
	return true
}

// sector is the specification of one sector. reads counts the reads of each value. It lets the search stop
// early: a value that no open write has cannot return, so that it must not be overwritten before all its
// reads. Zeroes are not counted in a sector with discards, because several operations leave them.
type sector struct {
	reads map[int64]int
}

// takeEffect returns the state after an open write has taken effect; false if reads of the former content
// are missing.
func (m sector) takeEffect(s state, value int64, opens []open) (state, bool) {
	isOpen := false
	after := append([]open(nil), opens...)
	for at := range after {
		isOpen = isOpen || after[at].value == s.content
		after[at].done = true
	}
	return encode(value, 0, after), isOpen || s.content == value || s.seen >= m.reads[s.content]
}

// closeWrite returns the state without an open write; false if reads of its value are missing.
func (m sector) closeWrite(s state, op int64) (state, bool) {
	opens := s.decode()
	kept := opens[:0]
	seen, complete := s.seen, true
	for _, one := range opens {
		if one.op != op {
			kept = append(kept, one)
		} else if one.value == s.content {
			seen = one.seen
		} else {
			complete = one.seen >= m.reads[one.value]
		}
	}
	return encode(s.content, seen, kept), complete
}

func (m sector) read(s state, opens []open, value int64) []state {
	var after []state
	_, counted := m.reads[value]
	isOpen := false
	for at := range opens {
		if opens[at].value == value && counted {
			opens[at].seen++
			isOpen = true
		}
	}
	if s.content == value && counted && !isOpen {
		after = append(after, encode(s.content, s.seen+1, opens))
	} else if s.content == value {
		after = append(after, encode(s.content, s.seen, opens))
	}
	for _, one := range opens {
		if one.value != value {
			continue
		}
		if fresh, complete := m.takeEffect(s, one.value, opens); complete {
			after = append(after, fresh)
		}
	}
	return after
}

func (m sector) end(s state, opens []open, in input) []state {
	var after []state
	done := !in.must
	for _, one := range opens {
		done = done || (one.op == in.op && one.done)
	}
	if kept, complete := m.closeWrite(s, in.op); done && complete {
		after = append(after, kept)
	}
	for _, one := range opens {
		// If another write takes effect now, this one may have done so immediately before.
		if one.op != in.op && done {
			continue
		}
		fresh, complete := m.takeEffect(s, one.value, opens)
		if !complete {
			continue
		}
		if fresh, complete = m.closeWrite(fresh, in.op); complete {
			after = append(after, fresh)
		}
	}
	return after
}

// next returns the states that the sector may have after one operation in this state.
func (m sector) next(s state, in input, returned interface{}) []state {
	opens := s.decode()
	switch in.kind {
	case begin:
		return []state{encode(s.content, s.seen, append(opens, open{in.op, in.value, 0, false}))}
	case read:
		return m.read(s, opens, returned.(int64))
	}
	return m.end(s, opens, in)
}

// add adds a state to a set in which no state covers another.
func add(set []state, fresh state) []state {
	for _, one := range set {
		if one.covers(fresh) {
			return set
		}
	}
	kept := set[:0]
	for _, one := range set {
		if !fresh.covers(one) {
			kept = append(kept, one)
		}
	}
	return append(kept, fresh)
}

func (m sector) step(before, what, returned interface{}) (bool, interface{}) {
	var after []state
	for _, one := range before.([]state) {
		for _, fresh := range m.next(one, what.(input), returned) {
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

// modelOf returns the model of a sector with this history. A state of the model is the set of states that the
// sector may have.
func modelOf(operations []porcupine.Operation) porcupine.Model {
	m := sector{map[int64]int{}}
	zeroed := false
	for _, o := range operations {
		in := o.Input.(input)
		zeroed = zeroed || (in.kind == begin && in.value == 0)
		if in.kind == read {
			m.reads[o.Output.(int64)]++
		}
	}
	if zeroed {
		delete(m.reads, 0)
	}
	return porcupine.Model{
		Init:  func() interface{} { return []state{{}} },
		Step:  m.step,
		Equal: equal,
	}
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
